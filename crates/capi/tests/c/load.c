/* Many keys: loaded, overwritten, deleted, seen by iterators and by snapshots, before and after compactions and a reopening.
   load N */

#include "say.h"

static void key_of(uint64_t n, char *key) { snprintf(key, 32, "key%012llu", (unsigned long long)(n * 2654435761u % 1000000007u)); }

static int value_of(uint64_t n, int round, char *value) {
  uint64_t state = n * 31 + (uint64_t)round;
  int length = 20 + (int)(draw(&state) % 80);
  for (int i = 0; i < length; i++) value[i] = (char)('a' + (i * 7 + (int)(n % 23) + round) % 26);
  return length;
}

static void write_some(leveldb_t *db, leveldb_writeoptions_t *writes, uint64_t from, uint64_t to, int round) {
  char *error = NULL;
  leveldb_writebatch_t *batch = leveldb_writebatch_create();
  for (uint64_t n = from; n < to; n++) {
    char key[32], value[128];
    key_of(n, key);
    int length = value_of(n, round, value);
    if (round > 0 && n % 5 == 0) {
      leveldb_writebatch_delete(batch, key, strlen(key));
    } else {
      leveldb_writebatch_put(batch, key, strlen(key), value, (size_t)length);
    }
    if (n % 100 == 99 || n + 1 == to) {
      leveldb_write(db, writes, batch, &error);
      must("write", error);
      leveldb_writebatch_clear(batch);
    }
  }
  leveldb_writebatch_destroy(batch);
}

static void walk(const char *what, leveldb_iterator_t *it, int backwards) {
  uint64_t count = 0, checksum = 0xcbf29ce484222325u;
  size_t length;
  if (backwards) leveldb_iter_seek_to_last(it);
  else leveldb_iter_seek_to_first(it);
  while (leveldb_iter_valid(it)) {
    const char *bytes = leveldb_iter_key(it, &length);
    checksum = sum(checksum, bytes, length);
    bytes = leveldb_iter_value(it, &length);
    checksum = sum(checksum, bytes, length);
    count++;
    if (backwards) leveldb_iter_prev(it);
    else leveldb_iter_next(it);
  }
  char *error = NULL;
  leveldb_iter_get_error(it, &error);
  must("walk", error);
  printf("%s: %llu pairs, %016llx\n", what, (unsigned long long)count, (unsigned long long)checksum);
}

static void gets(const char *what, leveldb_t *db, leveldb_readoptions_t *reads, uint64_t keys) {
  uint64_t state = 42, found = 0, checksum = 0xcbf29ce484222325u;
  for (uint64_t i = 0; i < keys / 10; i++) {
    char key[32], *error = NULL;
    size_t length;
    key_of(draw(&state) % (keys + keys / 4), key);
    char *value = leveldb_get(db, reads, key, strlen(key), &length, &error);
    must("get", error);
    if (value != NULL) {
      found++;
      checksum = sum(checksum, value, length);
      leveldb_free(value);
    }
  }
  printf("%s: %llu found, %016llx\n", what, (unsigned long long)found, (unsigned long long)checksum);
}

static void seeks(leveldb_t *db, leveldb_readoptions_t *reads) {
  uint64_t state = 7, checksum = 0xcbf29ce484222325u;
  leveldb_iterator_t *it = leveldb_create_iterator(db, reads);
  for (int i = 0; i < 2000; i++) {
    char key[32];
    snprintf(key, sizeof key, "key%012llu", (unsigned long long)(draw(&state) % 1000000007u));
    leveldb_iter_seek(it, key, strlen(key));
    for (int k = 0; k < 5 && leveldb_iter_valid(it); k++) {
      size_t length;
      const char *found = leveldb_iter_key(it, &length);
      checksum = sum(checksum, found, length);
      if (k % 3 == 2) leveldb_iter_prev(it);
      else leveldb_iter_next(it);
    }
  }
  leveldb_iter_destroy(it);
  printf("seeks: %016llx\n", (unsigned long long)checksum);
}

int main(int argc, char **argv) {
  uint64_t keys = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
  char *error = NULL;
  leveldb_options_t *options = leveldb_options_create();
  leveldb_filterpolicy_t *bloom = leveldb_filterpolicy_create_bloom(10);
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_options_set_filter_policy(options, bloom);
  leveldb_options_set_write_buffer_size(options, 1 << 20);
  leveldb_readoptions_t *reads = leveldb_readoptions_create(), *old = leveldb_readoptions_create();
  leveldb_writeoptions_t *writes = leveldb_writeoptions_create();
  leveldb_t *db = leveldb_open(options, "db", &error);
  must("open", error);

  write_some(db, writes, 0, keys, 0);
  const leveldb_snapshot_t *first = leveldb_create_snapshot(db);
  leveldb_iterator_t *living = leveldb_create_iterator(db, reads);
  write_some(db, writes, keys / 2, keys + keys / 8, 1);
  const leveldb_snapshot_t *second = leveldb_create_snapshot(db);
  write_some(db, writes, 0, keys / 4, 2);
  walk("the iterator from before", living, 0);
  leveldb_iter_destroy(living);
  gets("gets", db, reads, keys);
  seeks(db, reads);
  const leveldb_snapshot_t *snapshots[2] = {first, second};
  for (int i = 0; i < 2; i++) {
    leveldb_readoptions_set_snapshot(old, snapshots[i]);
    gets(i == 0 ? "gets of the first snapshot" : "gets of the second snapshot", db, old, keys);
    leveldb_iterator_t *it = leveldb_create_iterator(db, old);
    walk("a snapshot", it, i);
    leveldb_iter_destroy(it);
  }
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  leveldb_readoptions_set_snapshot(old, first);
  gets("gets of the first snapshot, compacted", db, old, keys);
  leveldb_readoptions_set_snapshot(old, NULL);
  leveldb_release_snapshot(db, first);
  leveldb_release_snapshot(db, second);
  leveldb_close(db);

  db = leveldb_open(options, "db", &error);
  must("open", error);
  leveldb_iterator_t *it = leveldb_create_iterator(db, reads);
  walk("forwards", it, 0);
  walk("backwards", it, 1);
  leveldb_iter_destroy(it);
  gets("gets", db, reads, keys);
  leveldb_close(db);
  leveldb_destroy_db(options, "db", &error);
  must("destroy", error);

  leveldb_options_destroy(options);
  leveldb_filterpolicy_destroy(bloom);
  leveldb_readoptions_destroy(reads);
  leveldb_readoptions_destroy(old);
  leveldb_writeoptions_destroy(writes);
  return 0;
}
