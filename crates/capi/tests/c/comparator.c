/* An order of keys of the user's own: numbers by their value. */

#include "say.h"

static int freed = 0;

static void destructor(void *state) {
  printf("destructor of %s\n", (const char *)state);
  freed++;
}

static long number(const char *bytes, size_t length) {
  long n = 0;
  for (size_t i = 0; i < length; i++) {
    if (bytes[i] < '0' || bytes[i] > '9') {
      printf("the comparator is given what is no key of ours\n");
      exit(1);
    }
    n = n * 10 + (bytes[i] - '0');
  }
  return n;
}

/* Keys that differ in leading zeros are the same. */
static int compare(void *state, const char *a, size_t a_length, const char *b, size_t b_length) {
  (void)state;
  long x = number(a, a_length), y = number(b, b_length);
  return x < y ? -1000 : x > y ? 5 : 0;
}

static const char *name(void *state) {
  (void)state;
  return "test.numbers";
}

int main(void) {
  char *error = NULL;
  char state[] = "numbers";
  leveldb_comparator_t *numbers = leveldb_comparator_create(state, destructor, compare, name);
  leveldb_filterpolicy_t *bloom = leveldb_filterpolicy_create_bloom(10);
  leveldb_options_t *options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_options_set_comparator(options, numbers);
  leveldb_options_set_write_buffer_size(options, 65536);
  leveldb_readoptions_t *reads = leveldb_readoptions_create();
  leveldb_writeoptions_t *writes = leveldb_writeoptions_create();
  leveldb_t *db = leveldb_open(options, "db", &error);
  must("open", error);
  put(db, writes, "9", "nine");
  put(db, writes, "10", "ten");
  put(db, writes, "1", "one");
  put(db, writes, "100", "hundred");
  put(db, writes, "010", "ten again");
  say_all(db, reads);
  say_get(db, reads, "0009");
  for (int i = 1000; i < 6000; i++) {
    char key[16];
    snprintf(key, sizeof key, "%d", i);
    put(db, writes, key, key);
  }
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  leveldb_compact_range(db, "1500", 4, "2500", 4);
  leveldb_delete(db, writes, "05999", 5, &error);
  must("delete", error);
  say_get(db, reads, "0009");
  say_get(db, reads, "01");
  say_get(db, reads, "5999");
  say_get(db, reads, "6000");
  leveldb_iterator_t *it = leveldb_create_iterator(db, reads);
  leveldb_iter_seek(it, "11", 2);
  say_pair(it);
  leveldb_iter_next(it);
  say_pair(it);
  leveldb_iter_seek(it, "04998", 5);
  say_pair(it);
  leveldb_iter_prev(it);
  say_pair(it);
  leveldb_iter_destroy(it);
  leveldb_close(db);

  leveldb_options_t *plain = leveldb_options_create();
  db = leveldb_open(plain, "db", &error);
  printf("in the order of bytes: %s\n", db == NULL ? "refused" : "opened");
  say_error("open", &error, 0);
  db = leveldb_open(options, "db", &error);
  must("open", error);
  say_get(db, reads, "10");
  leveldb_close(db);
  leveldb_destroy_db(options, "db", &error);
  must("destroy", error);

  printf("freed: %d\n", freed);
  leveldb_comparator_destroy(numbers);
  printf("freed: %d\n", freed);
  leveldb_filterpolicy_destroy(bloom);
  leveldb_options_destroy(plain);
  leveldb_options_destroy(options);
  leveldb_readoptions_destroy(reads);
  leveldb_writeoptions_destroy(writes);
  return 0;
}
