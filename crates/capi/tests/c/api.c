/* Every function of the interface that neither comparators nor filters have. */

#include "say.h"

static void say_property(leveldb_t *db, const char *name) {
  char *value = leveldb_property_value(db, name);
  printf("property %s: %s\n", name, value == NULL ? "none" : "there");
  leveldb_free(value);
}

static void say_files(leveldb_t *db) {
  int files = 0;
  for (int level = 0; level < 7; level++) {
    char name[64];
    snprintf(name, sizeof name, "leveldb.num-files-at-level%d", level);
    char *value = leveldb_property_value(db, name);
    files += atoi(value);
    leveldb_free(value);
  }
  printf("there are files: %s\n", files > 0 ? "yes" : "no");
}

/* The heading of the table of compactions; its rows are each library's own. */
static void say_heading(leveldb_t *db) {
  char *stats = leveldb_property_value(db, "leveldb.stats");
  char *end = stats;
  for (int line = 0; line < 3 && end != NULL; line++) end = strchr(end, '\n') == NULL ? NULL : strchr(end, '\n') + 1;
  if (end != NULL) fwrite(stats, 1, (size_t)(end - stats), stdout);
  leveldb_free(stats);
}

static void walk(leveldb_t *db, leveldb_readoptions_t *reads) {
  leveldb_iterator_t *it = leveldb_create_iterator(db, reads);
  printf("valid at first: %d\n", leveldb_iter_valid(it));
  leveldb_iter_seek_to_first(it);
  say_pair(it);
  leveldb_iter_next(it);
  say_pair(it);
  leveldb_iter_next(it);
  say_pair(it);
  leveldb_iter_prev(it);
  say_pair(it);
  leveldb_iter_seek(it, "m", 1);
  say_pair(it);
  leveldb_iter_prev(it);
  say_pair(it);
  leveldb_iter_seek_to_last(it);
  say_pair(it);
  leveldb_iter_next(it);
  say_pair(it);
  leveldb_iter_seek_to_first(it);
  leveldb_iter_prev(it);
  say_pair(it);
  leveldb_iter_seek(it, "zz", 2);
  say_pair(it);
  char *error = NULL;
  leveldb_iter_get_error(it, &error);
  say_error("iterator", &error, 1);
  leveldb_iter_destroy(it);
}

static void sizes(leveldb_t *db, leveldb_writeoptions_t *writes) {
  uint64_t state = 1;
  for (int i = 0; i < 20000; i++) {
    char key[32], value[101];
    snprintf(key, sizeof key, "size%06d", i);
    for (int k = 0; k < 100; k++) value[k] = (char)('a' + draw(&state) % 26);
    value[100] = 0;
    put(db, writes, key, value);
  }
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  const char *starts[2] = {"a", "size000000"};
  const char *limits[2] = {"b", "size010000"};
  size_t start_lengths[2] = {1, 10}, limit_lengths[2] = {1, 10};
  uint64_t sizes[2] = {7, 7};
  leveldb_approximate_sizes(db, 2, starts, start_lengths, limits, limit_lengths, sizes);
  printf("sizes: %s, %s\n", sizes[0] < 4096 ? "small" : "large",
         sizes[1] > 500000 && sizes[1] < 1500000 ? "about a megabyte" : "something else");
  say_files(db);
  leveldb_compact_range(db, "size000000", 10, "size000100", 10);
  leveldb_compact_range(db, NULL, 0, "size000100", 10);
  leveldb_readoptions_t *reads = leveldb_readoptions_create();
  say_get(db, reads, "size019999");
  leveldb_readoptions_destroy(reads);
}

static void environment(void) {
  leveldb_env_t *env = leveldb_create_default_env();
  setenv("TEST_TMPDIR", "testdir", 1);
  char *dir = leveldb_env_get_test_directory(env);
  printf("test directory: %s, %s\n", dir, access(dir, W_OK) == 0 ? "there" : "not there");
  leveldb_free(dir);
  leveldb_env_destroy(env);
}

int main(void) {
  char *error = NULL;
  printf("version %d.%d\n", leveldb_major_version(), leveldb_minor_version());
  leveldb_env_t *env = leveldb_create_default_env();
  leveldb_cache_t *cache = leveldb_cache_create_lru(1 << 20);
  leveldb_filterpolicy_t *bloom = leveldb_filterpolicy_create_bloom(10);
  leveldb_options_t *options = leveldb_options_create();
  leveldb_options_set_env(options, env);
  leveldb_options_set_info_log(options, NULL);
  leveldb_options_set_cache(options, cache);
  leveldb_options_set_filter_policy(options, bloom);
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_options_set_error_if_exists(options, 1);
  leveldb_options_set_paranoid_checks(options, 1);
  leveldb_options_set_write_buffer_size(options, 100000);
  leveldb_options_set_max_open_files(options, 100);
  leveldb_options_set_block_size(options, 1024);
  leveldb_options_set_block_restart_interval(options, 8);
  leveldb_options_set_max_file_size(options, 3 << 20);
  leveldb_options_set_compression(options, leveldb_no_compression);
  leveldb_options_set_compression(options, leveldb_snappy_compression);
  leveldb_readoptions_t *reads = leveldb_readoptions_create();
  leveldb_readoptions_set_verify_checksums(reads, 1);
  leveldb_readoptions_set_fill_cache(reads, 0);
  leveldb_writeoptions_t *writes = leveldb_writeoptions_create();

  leveldb_destroy_db(options, "db", &error);
  say_error("destroy nothing", &error, 1);
  leveldb_t *db = leveldb_open(options, "db", &error);
  say_error("open", &error, 1);
  leveldb_options_set_error_if_exists(options, 0);
  say_get(db, reads, "tide");
  put(db, writes, "tide", "in at noon");
  put(db, writes, "moor", "");
  put(db, writes, "", "of the empty key");
  leveldb_writeoptions_set_sync(writes, 1);
  put(db, writes, "quay", "kept");
  leveldb_put(db, writes, "a\0b", 3, "c\0d", 3, &error);
  must("put", error);
  leveldb_delete(db, writes, "none", 4, &error);
  leveldb_writeoptions_set_sync(writes, 0);
  leveldb_delete(db, writes, "quay2", 5, &error);
  must("delete", error);
  say_get(db, reads, "tide");
  say_get(db, reads, "moor");
  say_get(db, reads, "");
  say_get(db, reads, "quay");
  say_get(db, reads, "tid");
  say_all(db, reads);
  walk(db, reads);

  const leveldb_snapshot_t *before = leveldb_create_snapshot(db);
  leveldb_iterator_t *old = leveldb_create_iterator(db, reads);
  leveldb_delete(db, writes, "tide", 4, &error);
  put(db, writes, "moor", "wet");
  leveldb_readoptions_set_snapshot(reads, before);
  say_get(db, reads, "tide");
  say_all(db, reads);
  leveldb_readoptions_set_snapshot(reads, NULL);
  say_get(db, reads, "tide");
  say_all(db, reads);
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  leveldb_iter_seek(old, "tide", 4);
  say_pair(old);
  leveldb_iter_destroy(old);
  leveldb_readoptions_set_snapshot(reads, before);
  say_get(db, reads, "tide");
  leveldb_readoptions_set_snapshot(reads, NULL);
  leveldb_release_snapshot(db, before);

  sizes(db, writes);
  say_property(db, "leveldb.num-files-at-level0");
  say_property(db, "leveldb.num-files-at-level6");
  say_property(db, "leveldb.num-files-at-level7");
  say_property(db, "leveldb.num-files-at-level");
  say_property(db, "leveldb.num-files-at-levelx");
  say_property(db, "leveldb.stats");
  say_heading(db);
  say_property(db, "leveldb.sstables");
  say_property(db, "leveldb.approximate-memory-usage");
  say_property(db, "leveldb.tide-tables");
  say_property(db, "stats");
  leveldb_close(db);

  leveldb_options_set_create_if_missing(options, 0);
  db = leveldb_open(options, "db", &error);
  say_error("open again", &error, 1);
  say_get(db, reads, "moor");
  say_get(db, reads, "size000007");
  leveldb_close(db);
  leveldb_repair_db(options, "db", &error);
  say_error("repair", &error, 1);
  db = leveldb_open(options, "db", &error);
  say_error("open what was repaired", &error, 1);
  say_get(db, reads, "moor");
  say_get(db, reads, "tide");
  say_get(db, reads, "size019999");
  leveldb_close(db);
  leveldb_destroy_db(options, "db", &error);
  say_error("destroy", &error, 1);
  db = leveldb_open(options, "db", &error);
  printf("after that: %s\n", db == NULL ? "gone" : "there");
  say_error("open", &error, 1);
  environment();

  leveldb_writeoptions_destroy(writes);
  leveldb_readoptions_destroy(reads);
  leveldb_options_destroy(options);
  leveldb_filterpolicy_destroy(bloom);
  leveldb_cache_destroy(cache);
  leveldb_env_destroy(env);
  leveldb_free(NULL);
  return 0;
}
