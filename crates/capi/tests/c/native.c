/* Every function of esker.h but those of groups.c: what it does, and what it says when it is used wrongly. Says nothing if all is as
   it should be. */

#include "check.h"

#include <pthread.h>
#include <stdlib.h>

static int is(esker_slice value, const char *text) {
  int same = value.data != NULL && value.len == strlen(text) && memcmp(value.data, text, value.len) == 0;
  esker_free(value.data);
  return same;
}

static esker_code put(esker_keyspace *keyspace, const char *key, const char *value) {
  return esker_put(keyspace, key, strlen(key), value, strlen(value));
}

static esker_slice get(esker_keyspace *keyspace, const esker_snapshot *snapshot, const char *key) {
  esker_slice value;
  OK(esker_get(keyspace, snapshot, key, strlen(key), &value));
  return value;
}

static int stands_on(const esker_cursor *cursor, const char *key, const char *value) {
  size_t key_len, value_len;
  const char *k = esker_cursor_key(cursor, &key_len), *v = esker_cursor_value(cursor, &value_len);
  if (key == NULL) return k == NULL && v == NULL && key_len == 0 && value_len == 0 && !esker_cursor_valid(cursor);
  return esker_cursor_valid(cursor) && k != NULL && key_len == strlen(key) && memcmp(k, key, key_len) == 0 &&
         value_len == strlen(value) && memcmp(v, value, value_len) == 0;
}

static void opening(void) {
  esker_db *db = (esker_db *)1, *second;
  FAILS(ESKER_INVALID_ARGUMENT, "no option \"speed\"", esker_open("store", "speed=9", &db));
  CHECK(db == NULL);
  FAILS(ESKER_INVALID_ARGUMENT, "outside 512", esker_open("store", "block_bytes=1", &db));
  FAILS(ESKER_NOT_FOUND, "does not exist", esker_open("store", "create_if_missing=false", &db));
  FAILS(ESKER_INVALID_ARGUMENT, "path is NULL", esker_open(NULL, NULL, &db));
  FAILS(ESKER_MISUSE, "place for a result", esker_open("store", NULL, NULL));
  FAILS(ESKER_NOT_FOUND, "", esker_open_with("store", NULL, NULL, 0, true, &db));
  OK(esker_open("store", "preset=edge,compression=none,zstd:3,memtable_bytes=1MiB", &db));
  FAILS(ESKER_BUSY, "held", esker_open("store", NULL, &second));
  FAILS(ESKER_BUSY, "held", esker_destroy("store"));
  esker_keyspace *keyspace;
  OK(esker_create_keyspace(db, "large", "value_log_bytes_min=64", &keyspace));
  OK(put(keyspace, "key", "value"));
  OK(esker_keyspace_close(keyspace));
  OK(esker_close(db));

  esker_keyspace_options own[] = {{"large", "value_log_bytes_min=128,compaction=tiered"}};
  OK(esker_open_with("store", NULL, own, 1, true, &db));
  OK(esker_default_keyspace(db, &keyspace));
  FAILS(ESKER_READ_ONLY, "reading only", put(keyspace, "a", "b"));
  OK(esker_keyspace_close(keyspace));
  OK(esker_open_keyspace(db, "large", &keyspace));
  CHECK(is(get(keyspace, NULL, "key"), "value"));
  OK(esker_keyspace_close(keyspace));
  OK(esker_close(db));
  own[0].options = "memtable_bytes=1";
  FAILS(ESKER_INVALID_ARGUMENT, "memtable_bytes = 1", esker_open_with("store", NULL, own, 1, false, &db));
  own[0] = (esker_keyspace_options){"lagre", "memtable_bytes=1MiB"};
  FAILS(ESKER_INVALID_ARGUMENT, "there are default, large", esker_open_with("store", NULL, own, 1, false, &db));
  CHECK(db == NULL);
  /* Nothing is made then. */
  FAILS(ESKER_INVALID_ARGUMENT, "there are default:", esker_open_with("new", NULL, own, 1, false, &db));
  CHECK(db == NULL);
  FAILS(ESKER_NOT_FOUND, "", esker_destroy("new"));
  FAILS(ESKER_INVALID_ARGUMENT, "keyspaces are NULL", esker_open_with("store", NULL, NULL, 1, false, &db));
  FAILS(ESKER_NOT_FOUND, "", esker_destroy("nowhere"));
  OK(esker_destroy("store"));
}

static void keys(esker_db *db, esker_keyspace *keyspace) {
  OK(put(keyspace, "apple", "1"));
  OK(put(keyspace, "banana", ""));
  OK(esker_put(keyspace, "c\0d", 3, "\0", 1));
  CHECK(is(get(keyspace, NULL, "apple"), "1"));
  CHECK(is(get(keyspace, NULL, "banana"), ""));
  CHECK(get(keyspace, NULL, "cherry").data == NULL);
  esker_snapshot *before;
  OK(esker_snapshot_create(db, &before));
  OK(put(keyspace, "apple", "2"));
  OK(esker_delete(keyspace, "banana", 6));
  CHECK(is(get(keyspace, before, "apple"), "1"));
  CHECK(is(get(keyspace, before, "banana"), ""));
  CHECK(get(keyspace, NULL, "banana").data == NULL);
  esker_slice wanted[3] = {{"apple", 5}, {"none", 4}, {"c\0d", 3}}, values[3];
  OK(esker_multi_get(keyspace, NULL, wanted, 3, values));
  CHECK(is(values[0], "2"));
  CHECK(values[1].data == NULL);
  CHECK(values[2].len == 1 && values[2].data[0] == 0);
  esker_free(values[2].data);
  OK(esker_multi_get(keyspace, before, wanted, 1, values));
  CHECK(is(values[0], "1"));
  esker_slice same[3] = {{"apple", 5}, {"none", 4}, {"c\0d", 3}};
  OK(esker_multi_get(keyspace, NULL, same, 3, same));
  CHECK(is(same[0], "2"));
  CHECK(same[1].data == NULL);
  CHECK(same[2].len == 1 && same[2].data[0] == 0);
  esker_free(same[2].data);
  OK(esker_multi_get(keyspace, NULL, NULL, 0, NULL));
  FAILS(ESKER_MISUSE, "NULL", esker_multi_get(keyspace, NULL, NULL, 1, values));
  OK(esker_snapshot_close(before));
  for (int i = 0; i < 100; i++) {
    char key[8];
    snprintf(key, sizeof key, "r%02d", i);
    OK(put(keyspace, key, key));
  }
  OK(esker_delete_range(keyspace, "r10", 3, "r90", 3));
  CHECK(is(get(keyspace, NULL, "r09"), "r09"));
  CHECK(get(keyspace, NULL, "r10").data == NULL);
  CHECK(get(keyspace, NULL, "r89").data == NULL);
  CHECK(is(get(keyspace, NULL, "r90"), "r90"));
  OK(esker_delete_range(keyspace, "r", 1, "s", 1));
  FAILS(ESKER_INVALID_ARGUMENT, "length", esker_put(keyspace, NULL, 3, "x", 1));
  char *large = calloc(1, (1 << 20) + 1);
  FAILS(ESKER_INVALID_ARGUMENT, "longer than 1 MiB", esker_put(keyspace, large, (1 << 20) + 1, "x", 1));
  free(large);
}

static void batches(esker_db *db, esker_keyspace *keyspace, esker_keyspace *other, esker_keyspace *foreign) {
  esker_batch *batch;
  OK(esker_batch_create(&batch));
  CHECK(esker_batch_len(batch) == 0);
  OK(esker_write(db, batch, false));
  OK(esker_batch_put(batch, keyspace, "b1", 2, "one", 3));
  OK(esker_batch_put(batch, other, "b1", 2, "other one", 9));
  OK(esker_batch_delete(batch, keyspace, "apple", 5));
  OK(esker_batch_delete_range(batch, keyspace, "c", 1, "d", 1));
  CHECK(esker_batch_len(batch) == 4);
  FAILS(ESKER_INVALID_ARGUMENT, "another database", esker_batch_put(batch, foreign, "x", 1, "y", 1));
  OK(esker_write(db, batch, true));
  CHECK(esker_batch_len(batch) == 0);
  CHECK(is(get(keyspace, NULL, "b1"), "one"));
  CHECK(is(get(other, NULL, "b1"), "other one"));
  CHECK(get(keyspace, NULL, "apple").data == NULL);
  OK(esker_batch_put(batch, foreign, "x", 1, "y", 1));
  FAILS(ESKER_INVALID_ARGUMENT, "another database", esker_write(db, batch, false));
  CHECK(esker_batch_len(batch) == 1);
  OK(esker_batch_clear(batch));
  CHECK(esker_batch_len(batch) == 0);
  OK(esker_batch_close(batch));
  FAILS(ESKER_MISUSE, "no open esker_batch", esker_write(db, batch, false));
}

static void scans(esker_keyspace *keyspace, const esker_snapshot *empty) {
  for (char c = 'a'; c <= 'j'; c++) {
    char key[3] = {'s', c, 0};
    OK(put(keyspace, key, key + 1));
  }
  esker_scan_options range = {.start = "sb", .start_len = 2, .end = "si", .end_len = 2};
  esker_cursor *cursor;
  OK(esker_scan(keyspace, &range, &cursor));
  CHECK(stands_on(cursor, NULL, NULL));
  OK(esker_cursor_seek_to_first(cursor));
  CHECK(stands_on(cursor, "sb", "b"));
  OK(esker_cursor_next(cursor));
  CHECK(stands_on(cursor, "sc", "c"));
  OK(esker_cursor_seek_to_last(cursor));
  CHECK(stands_on(cursor, "sh", "h"));
  OK(esker_cursor_prev(cursor));
  CHECK(stands_on(cursor, "sg", "g"));
  OK(esker_cursor_seek(cursor, "se", 2));
  CHECK(stands_on(cursor, "se", "e"));
  OK(esker_cursor_seek_before(cursor, "se", 2));
  CHECK(stands_on(cursor, "sd", "d"));
  OK(esker_cursor_seek(cursor, "si", 2));
  CHECK(stands_on(cursor, NULL, NULL));
  OK(esker_cursor_next(cursor));
  OK(esker_cursor_close(cursor));
  range.keys_only = 2;
  range.past_cache = true;
  OK(esker_scan(keyspace, &range, &cursor));
  OK(esker_cursor_seek_to_first(cursor));
  CHECK(stands_on(cursor, "sb", ""));
  OK(esker_cursor_close(cursor));
  range.snapshot = empty;
  OK(esker_scan(keyspace, &range, &cursor));
  OK(esker_cursor_seek_to_first(cursor));
  CHECK(stands_on(cursor, NULL, NULL));
  OK(esker_cursor_close(cursor));
  esker_scan_options wrong = {.start = "b", .start_len = 1, .end = "a", .end_len = 1};
  FAILS(ESKER_INVALID_ARGUMENT, "ends before it starts", esker_scan(keyspace, &wrong, &cursor));
  CHECK(cursor == NULL);

  range = (esker_scan_options){.start = "s", .start_len = 1, .end = "t", .end_len = 1};
  esker_unordered *unordered;
  OK(esker_scan_unordered(keyspace, &range, 1 << 20, &unordered));
  size_t len;
  CHECK(esker_unordered_key(unordered, &len) == NULL && esker_unordered_value(unordered, &len) == NULL);
  int count = 0;
  bool found;
  for (;;) {
    OK(esker_unordered_next(unordered, &found));
    if (!found) break;
    const char *key = esker_unordered_key(unordered, &len);
    CHECK(len == 2 && key[0] == 's');
    CHECK(*esker_unordered_value(unordered, &len) == key[1]);
    count++;
  }
  CHECK(count == 10);
  OK(esker_unordered_close(unordered));
}

static esker_field int_field(int64_t integer) {
  esker_field field = {.kind = ESKER_INT, .integer = integer};
  return field;
}

static void records(esker_keyspace *keyspace) {
  esker_record *record;
  OK(esker_record_create(&record));
  esker_field text = {.kind = ESKER_TEXT, .data = "Ada", .len = 3}, age = int_field(36);
  esker_field yes = {.kind = ESKER_BOOL, .boolean = 2}, height = {.kind = ESKER_FLOAT, .number = 1.65};
  esker_field photo = {.kind = ESKER_BYTES, .data = "\0\1\2", .len = 3}, null = {.kind = ESKER_NULL}, value;
  OK(esker_record_set(record, "name", &text));
  OK(esker_record_set(record, "age", &age));
  OK(esker_record_set(record, "tall", &yes));
  OK(esker_record_set(record, "height", &height));
  OK(esker_record_set(record, "photo", &photo));
  OK(esker_record_set(record, "pet", &null));
  CHECK(esker_record_len(record) == 6);
  OK(esker_record_remove(record, "pet"));
  OK(esker_record_remove(record, "pet"));
  CHECK(esker_record_len(record) == 5);
  esker_field wrong = {.kind = 77}, latin = {.kind = ESKER_TEXT, .data = "\xff", .len = 1};
  FAILS(ESKER_INVALID_ARGUMENT, "77", esker_record_set(record, "x", &wrong));
  FAILS(ESKER_INVALID_ARGUMENT, "UTF-8", esker_record_set(record, "x", &latin));
  FAILS(ESKER_INVALID_ARGUMENT, "NULL", esker_record_set(record, "x", NULL));
  OK(esker_put_record(keyspace, "ada", 3, record));
  OK(esker_record_set(record, "", &text));
  FAILS(ESKER_INVALID_ARGUMENT, "name", esker_put_record(keyspace, "ada", 3, record));
  OK(esker_record_close(record));
  OK(esker_get_record(keyspace, NULL, "nobody", 6, &record));
  CHECK(record == NULL);
  OK(esker_get_record(keyspace, NULL, "ada", 3, &record));
  bool found;
  OK(esker_record_get(record, "name", &value, &found));
  CHECK(found && value.kind == ESKER_TEXT && value.len == 3 && memcmp(value.data, "Ada", 3) == 0);
  OK(esker_record_get(record, "age", &value, &found));
  CHECK(found && value.kind == ESKER_INT && value.integer == 36);
  OK(esker_record_get(record, "tall", &value, &found));
  CHECK(found && value.kind == ESKER_BOOL && value.boolean == 1);
  OK(esker_record_get(record, "height", &value, &found));
  CHECK(found && value.kind == ESKER_FLOAT && value.number == 1.65);
  OK(esker_record_get(record, "photo", &value, &found));
  CHECK(found && value.kind == ESKER_BYTES && value.len == 3 && memcmp(value.data, "\0\1\2", 3) == 0);
  OK(esker_record_get(record, "pet", &value, &found));
  CHECK(!found);
  const char *name;
  size_t len;
  OK(esker_record_at(record, 0, &name, &len, &value));
  CHECK(len == 3 && memcmp(name, "age", 3) == 0 && value.integer == 36);
  FAILS(ESKER_INVALID_ARGUMENT, "no field 5", esker_record_at(record, 5, &name, &len, &value));
  OK(esker_record_close(record));
  OK(put(keyspace, "plain", "no record"));
  FAILS(ESKER_INVALID_ARGUMENT, "", esker_get_record(keyspace, NULL, "plain", 5, &record));
}

static int found_keys(esker_found *found, const char *expected) {
  char keys[256] = "";
  bool more = true;
  while (more && esker_found_next(found, &more) == ESKER_OK && more) {
    size_t len;
    const char *key = esker_found_key(found, &len);
    strncat(keys, key, len);
    strcat(keys, " ");
  }
  if (strcmp(keys, expected) != 0) printf("found %s\n", keys);
  return strcmp(keys, expected) == 0;
}

static void indexes(esker_db *db, esker_keyspace *keyspace) {
  const char *people[] = {"ada", "bob", "cleo", "dan"};
  for (int i = 0; i < 4; i++) {
    esker_record *record;
    OK(esker_record_create(&record));
    esker_field age = int_field(30 + i / 2);
    OK(esker_record_set(record, "years", &age));
    OK(esker_put_record(keyspace, people[i], strlen(people[i]), record));
    OK(esker_record_close(record));
  }
  esker_found *found = NULL;
  esker_field young = int_field(30), old = int_field(31), value;
  FAILS(ESKER_INVALID_ARGUMENT, "index", esker_find(keyspace, NULL, "years", &young, &found));
  OK(esker_create_index(keyspace, "years"));
  FAILS(ESKER_INVALID_ARGUMENT, "", esker_create_index(keyspace, "years"));
  OK(esker_wait_index(keyspace, "years"));
  char *json;
  OK(esker_indexes(keyspace, &json));
  CHECK(strstr(json, "\"field\":\"years\"") != NULL && strstr(json, "\"ready\":true") != NULL);
  esker_free(json);
  OK(esker_find(keyspace, NULL, "years", &young, &found));
  size_t len;
  CHECK(esker_found_key(found, &len) == NULL && len == 0);
  FAILS(ESKER_INVALID_ARGUMENT, "stands on no key", esker_found_value(found, &value));
  bool more;
  OK(esker_found_next(found, &more));
  OK(esker_found_value(found, &value));
  CHECK(more && value.kind == ESKER_INT && value.integer == 30);
  CHECK(found_keys(found, "bob "));
  OK(esker_found_close(found));
  found = (esker_found *)1;
  FAILS(ESKER_INVALID_ARGUMENT, "NULL", esker_find(keyspace, NULL, "years", NULL, &found));
  CHECK(found == NULL);
  esker_snapshot *before;
  OK(esker_snapshot_create(db, &before));
  OK(esker_delete(keyspace, "cleo", 4));
  OK(esker_find_range(keyspace, NULL, "years", &young, false, NULL, false, &found));
  CHECK(found_keys(found, "dan "));
  OK(esker_found_close(found));
  OK(esker_find_range(keyspace, before, "years", &young, true, &old, true, &found));
  CHECK(found_keys(found, "ada bob cleo dan "));
  OK(esker_found_close(found));
  OK(esker_find_range(keyspace, before, "years", &young, true, &old, false, &found));
  CHECK(found_keys(found, "ada bob "));
  OK(esker_found_close(found));
  esker_slice *keys;
  size_t count;
  OK(esker_get_keys_by_field(keyspace, before, "years", &old, &keys, &count));
  CHECK(count == 2 && keys[0].len == 4 && memcmp(keys[0].data, "cleo", 4) == 0 && memcmp(keys[1].data, "dan", 3) == 0);
  esker_slices_free(keys, count);
  esker_field never = int_field(99);
  OK(esker_get_keys_by_field(keyspace, NULL, "years", &never, &keys, &count));
  CHECK(count == 0 && keys == NULL);
  esker_slices_free(keys, count);
  OK(esker_snapshot_close(before));
  OK(esker_drop_index(keyspace, "years"));
  FAILS(ESKER_INVALID_ARGUMENT, "", esker_drop_index(keyspace, "years"));
}

static void upkeep(esker_db *db, esker_keyspace *keyspace) {
  for (int i = 0; i < 5000; i++) {
    char key[16];
    snprintf(key, sizeof key, "u%06d", i);
    OK(put(keyspace, key, key));
  }
  OK(esker_sync(db));
  OK(esker_flush(db));
  OK(esker_compact(keyspace, "u", 1, "v", 1));
  OK(esker_compact(keyspace, NULL, 0, NULL, 0));
  OK(esker_wait_idle(db));
  uint64_t all, some;
  OK(esker_approximate_size(keyspace, NULL, 0, NULL, 0, &all));
  OK(esker_approximate_size(keyspace, "u002000", 7, "u003000", 7, &some));
  CHECK(all > 10000 && some < all);
  bool sound;
  char *json;
  OK(esker_verify(db, &sound, &json));
  CHECK(sound && strstr(json, "\"damage\":[]") != NULL);
  esker_free(json);
  OK(esker_verify(db, &sound, NULL));
  OK(esker_stats(db, &json));
  CHECK(strstr(json, "\"keyspaces\":[{\"name\":\"default\"") != NULL);
  esker_free(json);
  OK(esker_keyspace_names(db, &json));
  CHECK(strcmp(json, "[\"default\",\"other\"]") == 0);
  esker_free(json);
  OK(esker_checkpoint(db, "copy"));
  FAILS(ESKER_INVALID_ARGUMENT, "", esker_checkpoint(db, "copy"));
  FAILS(ESKER_BUSY, "held", esker_repair("native", NULL, NULL));
  OK(esker_repair("copy", NULL, &json));
  CHECK(strstr(json, "\"bytes_lost\":0") != NULL);
  esker_free(json);
  esker_db *copy;
  esker_keyspace *copied;
  OK(esker_open("copy", NULL, &copy));
  OK(esker_default_keyspace(copy, &copied));
  CHECK(is(get(copied, NULL, "u004999"), "u004999"));
  OK(esker_keyspace_close(copied));
  OK(esker_close(copy));
  OK(esker_destroy("copy"));
}

/* A keyspace is made with the options that its database was opened with, but for those of its own. */
static void keyspace_options(void) {
  const char *texts[] = {"filter=none", NULL};
  for (int own = 0; own < 2; own++) {
    esker_db *db;
    esker_keyspace *keyspace;
    OK(esker_open("shaped", "memtable_bytes=64KiB,compaction_threads=1", &db));
    OK(esker_create_keyspace(db, "made", texts[own], &keyspace));
    for (int i = 0; i < 5000; i++) {
      char key[100];
      snprintf(key, sizeof key, "%06d and so many bytes that a memtable of this size is full of them soon", i);
      OK(put(keyspace, key, key));
    }
    OK(esker_wait_idle(db));
    /* A memtable of the default size would hold all of it, and nothing would be in tables. */
    uint64_t bytes = 0;
    OK(esker_approximate_size(keyspace, NULL, 0, NULL, 0, &bytes));
    CHECK(bytes > 1000);
    OK(esker_keyspace_close(keyspace));
    OK(esker_close(db));
    OK(esker_destroy("shaped"));
  }
}

/* What belongs to a database that was closed says so, in whatever order the rest is closed. */
static void misuse(void) {
  esker_db *db;
  esker_keyspace *keyspace, *dropped, *again = NULL;
  esker_snapshot *snapshot;
  esker_cursor *cursor;
  esker_unordered *unordered;
  esker_batch *batch;
  OK(esker_open("misused", NULL, &db));
  OK(esker_default_keyspace(db, &keyspace));
  OK(esker_create_keyspace(db, "dropped", NULL, &dropped));
  FAILS(ESKER_INVALID_ARGUMENT, "already", esker_create_keyspace(db, "dropped", NULL, &again));
  FAILS(ESKER_INVALID_ARGUMENT, "no keyspace", esker_open_keyspace(db, "nowhere", &again));
  OK(esker_drop_keyspace(db, "dropped"));
  FAILS(ESKER_INVALID_ARGUMENT, "dropped", put(dropped, "a", "b"));
  FAILS(ESKER_INVALID_ARGUMENT, "default", esker_drop_keyspace(db, "default"));
  OK(put(keyspace, "a", "b"));
  OK(esker_snapshot_create(db, &snapshot));
  OK(esker_scan(keyspace, NULL, &cursor));
  OK(esker_cursor_seek_to_first(cursor));
  OK(esker_scan_unordered(keyspace, NULL, 1000, &unordered));
  OK(esker_batch_create(&batch));
  OK(esker_batch_put(batch, keyspace, "c", 1, "d", 1));
  FAILS(ESKER_MISUSE, "no open esker_keyspace", put((esker_keyspace *)db, "a", "b"));
  FAILS(ESKER_MISUSE, "no open esker_db", esker_sync((esker_db *)keyspace));
  FAILS(ESKER_MISUSE, "esker_db is NULL", esker_sync(NULL));
  FAILS(ESKER_MISUSE, "no open esker_db", esker_sync((esker_db *)((char *)db + 1)));
  OK(esker_close(db));
  FAILS(ESKER_MISUSE, "no open esker_db", esker_close(db));
  FAILS(ESKER_MISUSE, "no open esker_db", esker_sync(db));
  FAILS(ESKER_MISUSE, "database is closed", put(keyspace, "a", "b"));
  esker_slice value = {"x", 1};
  FAILS(ESKER_MISUSE, "database is closed", esker_get(keyspace, NULL, "a", 1, &value));
  CHECK(value.data == NULL);
  FAILS(ESKER_MISUSE, "database is closed", esker_cursor_next(cursor));
  CHECK(stands_on(cursor, NULL, NULL));
  bool found = true;
  FAILS(ESKER_MISUSE, "database is closed", esker_unordered_next(unordered, &found));
  CHECK(!found);
  OK(esker_batch_close(batch));
  OK(esker_keyspace_close(keyspace));
  FAILS(ESKER_MISUSE, "no open esker_keyspace", esker_keyspace_close(keyspace));
  OK(esker_keyspace_close(dropped));
  OK(esker_cursor_close(cursor));
  OK(esker_unordered_close(unordered));
  OK(esker_open("misused", NULL, &db));
  OK(esker_default_keyspace(db, &keyspace));
  FAILS(ESKER_MISUSE, "database is closed", esker_get(keyspace, snapshot, "a", 1, &value));
  OK(esker_snapshot_close(snapshot));
  CHECK(is(get(keyspace, NULL, "a"), "b"));
  OK(esker_close(db));
  OK(esker_keyspace_close(keyspace));
  OK(esker_destroy("misused"));
}

static void *write_some(void *keyspace) {
  char key[16];
  for (int i = 0; i < 20000; i++) {
    snprintf(key, sizeof key, "t%05d", i);
    if (esker_put(keyspace, key, 6, key, 6) != ESKER_OK) failed = 1;
    esker_slice value;
    if (esker_get(keyspace, NULL, key, 6, &value) != ESKER_OK || value.data == NULL) failed = 1;
    esker_free(value.data);
  }
  /* The text of an error is the thread's own. */
  if (esker_put(keyspace, NULL, 1, NULL, 0) != ESKER_INVALID_ARGUMENT) failed = 1;
  return esker_last_error()[0] != 0 ? keyspace : NULL;
}

static void threads(esker_keyspace *keyspace) {
  pthread_t both[2];
  for (int i = 0; i < 2; i++) pthread_create(&both[i], NULL, write_some, keyspace);
  for (int i = 0; i < 2; i++) {
    void *told;
    pthread_join(both[i], &told);
    CHECK(told != NULL);
  }
  CHECK(is(get(keyspace, NULL, "t19999"), "t19999"));
}

int main(void) {
  CHECK(esker_last_error()[0] == 0);
  CHECK(esker_version()[0] >= '0' && strchr(esker_version(), '.') != NULL);
  opening();
  keyspace_options();
  esker_db *db, *second;
  esker_keyspace *keyspace, *other, *foreign;
  esker_snapshot *empty;
  OK(esker_open("native", "compaction=tiered,run_index=true,scheduler=priority", &db));
  OK(esker_open("second", NULL, &second));
  OK(esker_default_keyspace(db, &keyspace));
  OK(esker_default_keyspace(second, &foreign));
  OK(esker_snapshot_create(db, &empty));
  OK(esker_create_keyspace(db, "other", "filter=bloom:14", &other));
  keys(db, keyspace);
  batches(db, keyspace, other, foreign);
  scans(keyspace, empty);
  OK(esker_snapshot_close(empty));
  records(keyspace);
  indexes(db, keyspace);
  threads(keyspace);
  upkeep(db, keyspace);
  OK(esker_keyspace_close(keyspace));
  OK(esker_keyspace_close(other));
  OK(esker_keyspace_close(foreign));
  OK(esker_close(db));
  OK(esker_close(second));
  misuse();
  return failed;
}
