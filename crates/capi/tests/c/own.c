/* LevelDB's interface on Esker where LevelDB itself does otherwise, or cannot be asked. Says nothing if all is as it should be.
   own DIR: DIR holds a database of LevelDB. */

#include "check.h"

#include <leveldb/c.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

/* True if the error holds these words; frees it. */
static int told(char **error, const char *words) {
  int holds = *error != NULL && strstr(*error, words) != NULL;
  if (!holds) printf("told: %s\n", *error == NULL ? "nothing" : *error);
  leveldb_free(*error);
  *error = NULL;
  return holds;
}

static void put(leveldb_t *db, const char *key, const char *value) {
  char *error = NULL;
  leveldb_writeoptions_t *writes = leveldb_writeoptions_create();
  leveldb_put(db, writes, key, strlen(key), value, strlen(value), &error);
  CHECK(error == NULL);
  leveldb_writeoptions_destroy(writes);
}

static int has(leveldb_t *db, const char *key, const char *value) {
  char *error = NULL;
  size_t length;
  leveldb_readoptions_t *reads = leveldb_readoptions_create();
  char *found = leveldb_get(db, reads, key, strlen(key), &length, &error);
  CHECK(error == NULL);
  int same = found != NULL && length == strlen(value) && memcmp(found, value, length) == 0;
  leveldb_free(found);
  leveldb_readoptions_destroy(reads);
  return same;
}

/* How many files all levels have. */
static int files(leveldb_t *db) {
  int count = 0;
  for (int level = 0; level < 7; level++) {
    char name[64];
    snprintf(name, sizeof name, "leveldb.num-files-at-level%d", level);
    char *value = leveldb_property_value(db, name);
    count += atoi(value);
    leveldb_free(value);
  }
  return count;
}

static void text_options(void) {
  char *error = NULL;
  leveldb_options_t *options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_options_set_string(options, "speed=9", &error);
  CHECK(told(&error, "Invalid argument: no option \"speed\": use one of"));
  leveldb_options_set_string(options, "block_bytes=1", &error);
  CHECK(told(&error, "Invalid argument: block_bytes = 1 is outside"));
  leveldb_options_set_string(options, NULL, &error);
  CHECK(told(&error, "Invalid argument: the settings are NULL"));
  leveldb_options_set_string(options, "compaction=tiered,run_index=true,compression=none,zstd:3", &error);
  CHECK(error == NULL);
  /* Of one name the last counts, whatever LevelDB's own option says. */
  leveldb_options_set_string(options, "value_log_bytes_min=1KiB", &error);
  leveldb_options_set_string(options, "value_log_bytes_min=100", &error);
  leveldb_options_set_string(options, "memtable_bytes=64KiB", &error);
  leveldb_options_set_write_buffer_size(options, 64 << 20);
  CHECK(error == NULL);
  /* Each text stands for itself, whatever was set before. */
  leveldb_options_set_string(options, "", &error);
  CHECK(error == NULL);
  leveldb_options_set_string(options, "zstd:3", &error);
  CHECK(told(&error, "Invalid argument: "));
  leveldb_t *db = leveldb_open(options, "text", &error);
  CHECK(error == NULL && db != NULL);
  char value[201];
  memset(value, 'v', 200);
  value[200] = 0;
  for (int i = 0; i < 5000; i++) {
    char key[16];
    snprintf(key, sizeof key, "%06d", i);
    put(db, key, value);
  }
  CHECK(has(db, "000007", value));
  /* 64 KiB of memtable are full of so many keys, and flushed soon; 64 MiB would not be. */
  int tables = files(db);
  for (int waits = 0; tables == 0 && waits < 1000; waits++) {
    usleep(10000);
    tables = files(db);
  }
  CHECK(tables > 0);
  /* Values are kept apart: the tables alone are far smaller. */
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  const char *start = "0", *limit = "9";
  size_t one = 1;
  uint64_t size = 0;
  leveldb_approximate_sizes(db, 1, &start, &one, &limit, &one, &size);
  CHECK(size > 1000 && size < 500000);
  leveldb_close(db);
  leveldb_options_set_string(options, "keyspaces={\"prices\":{}}", &error);
  CHECK(error == NULL && leveldb_open(options, "text", &error) == NULL);
  CHECK(told(&error, "which is not there; there are default"));
  CHECK(leveldb_open(options, "fresh", &error) == NULL);
  CHECK(told(&error, "there are default:") && access("fresh", F_OK) != 0);
  leveldb_destroy_db(options, "text", &error);
  CHECK(error == NULL);
  leveldb_options_destroy(options);
}

/* LevelDB would crash. */
static void kindness(void) {
  char *error = NULL;
  leveldb_options_t *options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_readoptions_t *reads = leveldb_readoptions_create();
  leveldb_t *db = leveldb_open(options, "kind", &error);
  CHECK(error == NULL);
  put(db, "a", "1");
  put(db, "b", "2");
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  put(db, "c", "3");
  const leveldb_snapshot_t *snapshot = leveldb_create_snapshot(db);
  leveldb_iterator_t *it = leveldb_create_iterator(db, reads);
  leveldb_iter_seek_to_first(it);
  leveldb_close(db);
  leveldb_close(db);
  leveldb_put(db, NULL, "x", 1, "y", 1, &error);
  CHECK(told(&error, "Invalid argument: the pointer leads to no open database"));
  size_t length = 9;
  CHECK(leveldb_get(NULL, reads, "x", 1, &length, &error) == NULL && length == 0);
  CHECK(told(&error, "Invalid argument: the pointer to the database is NULL"));
  CHECK(leveldb_property_value(db, "leveldb.stats") == NULL);
  const char *start = "a", *limit = "z";
  const size_t one = 1;
  uint64_t size = 9;
  leveldb_approximate_sizes(db, 1, &start, &one, &limit, &one, &size);
  CHECK(size == 0);

  /* What stands in memory and in tables is still there for the iterator, also once the database is open anew. */
  leveldb_t *again = leveldb_open(options, "kind", &error);
  CHECK(error == NULL && again != NULL);
  put(again, "bb", "later");
  leveldb_compact_range(again, NULL, 0, NULL, 0);
  char keys[8] = "";
  for (; leveldb_iter_valid(it); leveldb_iter_next(it)) strncat(keys, leveldb_iter_key(it, &length), 1);
  leveldb_iter_get_error(it, &error);
  CHECK(error == NULL && strcmp(keys, "abc") == 0);
  CHECK(leveldb_iter_key(it, &length) == NULL && length == 0);
  leveldb_iter_next(it);
  leveldb_iter_prev(it);
  leveldb_iter_destroy(it);
  leveldb_iter_destroy(it);
  CHECK(leveldb_iter_valid(it) == 0);
  length = 9;
  CHECK(leveldb_iter_key(it, &length) == NULL && length == 0);

  /* A snapshot of the database as it was open before means another moment. */
  leveldb_readoptions_set_snapshot(reads, snapshot);
  leveldb_get(again, reads, "a", 1, &length, &error);
  CHECK(told(&error, "Invalid argument: the snapshot is of another database"));
  leveldb_release_snapshot(db, snapshot);
  leveldb_release_snapshot(again, snapshot);
  leveldb_get(again, reads, "a", 1, &length, &error);
  CHECK(told(&error, "Invalid argument: the snapshot of the read options was released"));
  leveldb_readoptions_set_snapshot(reads, NULL);
  CHECK(has(again, "bb", "later"));
  leveldb_close(again);
  leveldb_writebatch_destroy(NULL);
  leveldb_options_destroy(NULL);
  leveldb_destroy_db(options, "kind", &error);
  leveldb_open(NULL, "kind", &error);
  CHECK(told(&error, "Invalid argument: the pointer to the options is NULL"));
  leveldb_open(options, NULL, &error);
  CHECK(told(&error, "Invalid argument: the name of the database is NULL"));
  leveldb_readoptions_destroy(reads);
  leveldb_options_destroy(options);
}

static int backwards(void *state, const char *a, size_t a_length, const char *b, size_t b_length) {
  (void)state, (void)a_length, (void)b_length;
  return *b - *a;
}

static const char *name(void *state) {
  (void)state;
  return "test.backwards";
}

static void freed(void *state) { ++*(int *)state; }

/* What is destroyed while it is needed goes when it is needed no more. */
static void policies(void) {
  char *error = NULL;
  int destroyed = 0;
  leveldb_comparator_t *order = leveldb_comparator_create(&destroyed, freed, backwards, name);
  leveldb_options_t *options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_options_set_comparator(options, order);
  leveldb_t *db = leveldb_open(options, "policies", &error);
  CHECK(error == NULL);
  leveldb_comparator_destroy(order);
  CHECK(destroyed == 0);
  put(db, "a", "1");
  put(db, "b", "2");
  CHECK(has(db, "a", "1"));
  leveldb_close(db);
  CHECK(destroyed == 1);
  leveldb_open(options, "policies", &error);
  CHECK(told(&error, "Invalid argument: the comparator was destroyed"));
  leveldb_options_destroy(options);
  CHECK(leveldb_comparator_create(&destroyed, freed, NULL, name) == NULL);
  CHECK(leveldb_filterpolicy_create(&destroyed, freed, NULL, NULL, name) == NULL);
  CHECK(destroyed == 1);
  CHECK(esker_destroy("policies") == ESKER_OK);
}

/* Threads of this process; -1 where the system does not tell. */
static int threads(void) {
  char line[128];
  int count = -1;
  FILE *status = fopen("/proc/self/status", "r");
  while (status != NULL && fgets(line, sizeof line, status) != NULL) sscanf(line, "Threads: %d", &count);
  if (status != NULL) fclose(status);
  return count;
}

/* A database has five threads, however many processors there are, and any size of a cache that can be written down is taken. */
static void sizes(void) {
  char *error = NULL;
  leveldb_cache_t *cache = leveldb_cache_create_lru(SIZE_MAX);
  leveldb_options_t *options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_options_set_cache(options, cache);
  int before = threads();
  leveldb_t *db = leveldb_open(options, "sizes", &error);
  CHECK(error == NULL && db != NULL);
  CHECK(before < 0 || threads() == before + 5);
  put(db, "a", "1");
  CHECK(has(db, "a", "1"));
  leveldb_close(db);
  CHECK(before < 0 || threads() == before);
  leveldb_destroy_db(options, "sizes", &error);
  CHECK(error == NULL);
  leveldb_options_destroy(options);
  leveldb_cache_destroy(cache);
}

/* A directory that was made with Esker by other means opens, and the other way round. */
static void shared_with_esker(void) {
  char *error = NULL;
  esker_db *db;
  esker_keyspace *keyspace;
  CHECK(esker_open("shared", NULL, &db) == ESKER_OK);
  CHECK(esker_default_keyspace(db, &keyspace) == ESKER_OK);
  CHECK(esker_put(keyspace, "a", 1, "of esker", 8) == ESKER_OK);
  esker_keyspace *other;
  CHECK(esker_create_keyspace(db, "other", NULL, &other) == ESKER_OK);
  esker_keyspace_close(other);
  esker_keyspace_close(keyspace);
  CHECK(esker_close(db) == ESKER_OK);
  leveldb_options_t *options = leveldb_options_create();
  leveldb_t *shared = leveldb_open(options, "shared", &error);
  CHECK(error == NULL && has(shared, "a", "of esker"));
  put(shared, "b", "of leveldb");
  leveldb_close(shared);
  CHECK(esker_open("shared", NULL, &db) == ESKER_OK);
  CHECK(esker_default_keyspace(db, &keyspace) == ESKER_OK);
  esker_slice value;
  CHECK(esker_get(keyspace, NULL, "b", 1, &value) == ESKER_OK && value.len == 10);
  esker_free(value.data);
  esker_keyspace_close(keyspace);
  CHECK(esker_close(db) == ESKER_OK);
  leveldb_destroy_db(options, "shared", &error);
  CHECK(error == NULL);
  leveldb_options_destroy(options);
}

/* LevelDB's own files are left alone. */
static void foreign(const char *dir) {
  char *error = NULL;
  leveldb_options_t *options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  CHECK(leveldb_open(options, dir, &error) == NULL);
  CHECK(told(&error, "Invalid argument: "));
  leveldb_open(options, dir, &error);
  CHECK(told(&error, "esker load leveldb:"));
  leveldb_destroy_db(options, dir, &error);
  CHECK(told(&error, "holds a database of LevelDB"));
  leveldb_repair_db(options, dir, &error);
  CHECK(told(&error, "holds a database of LevelDB"));
  leveldb_options_destroy(options);
}

/* The key that is sought may be one that the iterator has lent, or a part of it. */
static void lent_targets(void) {
  enum { COUNT = 3000 };
  char *error = NULL;
  leveldb_options_t *options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_options_set_block_size(options, 1024);
  leveldb_options_set_write_buffer_size(options, 64 << 10);
  leveldb_t *db = leveldb_open(options, "lent", &error);
  CHECK(error == NULL && db != NULL);
  /* Each value names another key; several tables have a part of all of them. */
  for (int from = 0; from < 5; from++) {
    for (int nth = from; nth < COUNT; nth += 5) {
      char key[16], value[160];
      snprintf(key, sizeof key, "k%05d", nth);
      memset(value, '.', sizeof value);
      snprintf(value, sizeof value, "k%05d", (int)((nth * 7L + 1) % COUNT));
      leveldb_writeoptions_t *writes = leveldb_writeoptions_create();
      leveldb_put(db, writes, key, 6, value, sizeof value, &error);
      CHECK(error == NULL);
      leveldb_writeoptions_destroy(writes);
    }
  }
  leveldb_readoptions_t *reads = leveldb_readoptions_create();
  leveldb_readoptions_set_fill_cache(reads, 0);
  leveldb_iterator_t *it = leveldb_create_iterator(db, reads);
  leveldb_iter_seek_to_first(it);
  long expected = 0;
  size_t length;
  for (int step = 0; step < 2000; step++) {
    const char *key = leveldb_iter_key(it, &length);
    CHECK(length == 6 && key != NULL && atol(key + 1) == expected);
    if (failed) break;
    const char *value = leveldb_iter_value(it, &length);
    leveldb_iter_seek(it, value, 6);
    expected = (expected * 7 + 1) % COUNT;
    if (step % 3 == 0) {
      key = leveldb_iter_key(it, &length);
      leveldb_iter_seek(it, key, 5);
      expected -= expected % 10;
    }
  }
  leveldb_iter_destroy(it);
  leveldb_readoptions_destroy(reads);
  leveldb_close(db);
  leveldb_destroy_db(options, "lent", &error);
  leveldb_options_destroy(options);
}

/* What was destroyed before it is set is not the same as what was never set. */
static void closed_before(void) {
  char *error = NULL;
  size_t length;
  int destroyed = 0;
  leveldb_options_t *options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_comparator_t *order = leveldb_comparator_create(&destroyed, freed, backwards, name);
  leveldb_comparator_destroy(order);
  leveldb_options_set_comparator(options, order);
  CHECK(leveldb_open(options, "before", &error) == NULL);
  CHECK(told(&error, "Invalid argument: the comparator was destroyed"));
  leveldb_options_set_comparator(options, NULL);
  leveldb_t *db = leveldb_open(options, "before", &error);
  CHECK(error == NULL);
  const leveldb_snapshot_t *snapshot = leveldb_create_snapshot(db);
  leveldb_release_snapshot(db, snapshot);
  leveldb_readoptions_t *reads = leveldb_readoptions_create();
  leveldb_readoptions_set_snapshot(reads, snapshot);
  leveldb_get(db, reads, "a", 1, &length, &error);
  CHECK(told(&error, "Invalid argument: the snapshot of the read options was released"));
  leveldb_iterator_t *it = leveldb_create_iterator(db, reads);
  leveldb_iter_seek_to_first(it);
  CHECK(!leveldb_iter_valid(it));
  leveldb_iter_get_error(it, &error);
  CHECK(told(&error, "Invalid argument: the snapshot of the read options was released"));
  leveldb_iter_destroy(it);
  leveldb_readoptions_destroy(reads);
  leveldb_close(db);
  leveldb_destroy_db(options, "before", &error);
  leveldb_options_destroy(options);
}

/* After an error a result is NULL, 0 or false, whatever stood there. */
static void nothing_after_errors(void) {
  esker_db *db;
  CHECK(esker_open("nothing", NULL, &db) == ESKER_OK);
  esker_close(db);
  char *json = (char *)1;
  CHECK(esker_stats(db, &json) != ESKER_OK && json == NULL);
  bool sound = true;
  json = (char *)1;
  CHECK(esker_verify(db, &sound, &json) != ESKER_OK && !sound && json == NULL);
  json = (char *)1;
  CHECK(esker_keyspace_names(db, &json) != ESKER_OK && json == NULL);
  json = (char *)1;
  CHECK(esker_repair("nowhere", NULL, &json) != ESKER_OK && json == NULL);
  uint64_t bytes = 7;
  CHECK(esker_approximate_size(NULL, NULL, 0, NULL, 0, &bytes) != ESKER_OK && bytes == 0);
  CHECK(esker_batch_create(NULL) != ESKER_OK);
  CHECK(esker_destroy("nothing") == ESKER_OK);
}

int main(int argc, char **argv) {
  text_options();
  kindness();
  policies();
  lent_targets();
  closed_before();
  nothing_after_errors();
  sizes();
  shared_with_esker();
  for (int i = 1; i < argc; i++) foreign(argv[i]);
  return failed;
}
