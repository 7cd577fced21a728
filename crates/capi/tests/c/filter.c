/* A filter policy of the user's own is asked about every table that may hold a key, and believed. */

#include "say.h"

enum { FIRST_BYTES, NO_TO_ALL, YES_TO_ALL };
static int answer = FIRST_BYTES;
static int made = 0, asked = 0, freed = 0;

static void destructor(void *state) {
  (void)state;
  freed++;
}

static const char *name(void *state) { return state; }

/* A filter holds the last byte of each key. */
static char *create(void *state, const char *const *keys, const size_t *lengths, int count, size_t *length) {
  (void)state;
  made++;
  char *filter = malloc((size_t)count + 1);
  *length = 0;
  for (int i = 0; i < count; i++) {
    if (lengths[i] > 0) filter[(*length)++] = keys[i][lengths[i] - 1];
  }
  return filter;
}

static unsigned char may_match(void *state, const char *key, size_t length, const char *filter, size_t filter_length) {
  (void)state;
  asked++;
  if (answer == NO_TO_ALL) return 0;
  if (answer == YES_TO_ALL || length == 0) return 1;
  return memchr(filter, key[length - 1], filter_length) != NULL;
}

static void gets(leveldb_t *db, leveldb_readoptions_t *reads) {
  asked = 0;
  say_get(db, reads, "apple");
  say_get(db, reads, "pear");
  say_get(db, reads, "plum");
  say_get(db, reads, "melon");
  printf("asked: %s\n", asked > 0 ? "yes" : "no");
}

static void run(leveldb_comparator_t *order) {
  char *error = NULL;
  char mine[] = "test.last-bytes", other[] = "test.another";
  leveldb_filterpolicy_t *policy = leveldb_filterpolicy_create(mine, destructor, create, may_match, name);
  leveldb_filterpolicy_t *another = leveldb_filterpolicy_create(other, destructor, create, may_match, name);
  leveldb_filterpolicy_t *bloom = leveldb_filterpolicy_create_bloom(10);
  leveldb_options_t *options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  if (order != NULL) leveldb_options_set_comparator(options, order);
  leveldb_options_set_filter_policy(options, policy);
  leveldb_readoptions_t *reads = leveldb_readoptions_create();
  leveldb_writeoptions_t *writes = leveldb_writeoptions_create();
  leveldb_t *db = leveldb_open(options, "db", &error);
  must("open", error);
  put(db, writes, "apple", "1");
  put(db, writes, "pear", "2");
  put(db, writes, "plum", "3");
  made = 0;
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  printf("made: %s\n", made > 0 ? "yes" : "no");
  int answers[] = {FIRST_BYTES, NO_TO_ALL, YES_TO_ALL};
  for (int i = 0; i < 3; i++) {
    answer = answers[i];
    printf("answers %d\n", answer);
    gets(db, reads);
  }
  answer = NO_TO_ALL;
  put(db, writes, "melon", "in memory");
  printf("what is in memory is not filtered, nor are iterators\n");
  gets(db, reads);
  say_all(db, reads);
  leveldb_close(db);

  leveldb_filterpolicy_t *others[] = {another, bloom, NULL, policy};
  for (int i = 0; i < 4; i++) {
    printf("opened with policy %d\n", i);
    leveldb_options_t *changed = leveldb_options_create();
    if (order != NULL) leveldb_options_set_comparator(changed, order);
    if (others[i] != NULL) leveldb_options_set_filter_policy(changed, others[i]);
    db = leveldb_open(changed, "db", &error);
    must("open", error);
    asked = 0;
    say_get(db, reads, "apple");
    say_get(db, reads, "pear");
    printf("asked: %s\n", asked > 0 ? "yes" : "no");
    leveldb_close(db);
    leveldb_options_destroy(changed);
  }
  leveldb_destroy_db(options, "db", &error);
  must("destroy", error);
  freed = 0;
  leveldb_filterpolicy_destroy(policy);
  leveldb_filterpolicy_destroy(another);
  leveldb_filterpolicy_destroy(bloom);
  printf("freed: %d\n", freed);
  leveldb_options_destroy(options);
  leveldb_readoptions_destroy(reads);
  leveldb_writeoptions_destroy(writes);
}

static int backwards(void *state, const char *a, size_t a_length, const char *b, size_t b_length) {
  (void)state;
  size_t shorter = a_length < b_length ? a_length : b_length;
  int order = memcmp(b, a, shorter);
  return order != 0 ? order : b_length < a_length ? -1 : b_length > a_length;
}

static const char *order_name(void *state) {
  (void)state;
  return "test.backwards";
}

static void nothing(void *state) { (void)state; }

int main(void) {
  run(NULL);
  printf("with an order of one's own\n");
  leveldb_comparator_t *order = leveldb_comparator_create(NULL, nothing, backwards, order_name);
  run(order);
  leveldb_comparator_destroy(order);
  return 0;
}
