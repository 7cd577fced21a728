/* Stores below somebody else's log: every function of esker.h for them. Says nothing if all is as it should be. */

#include "check.h"

static const char BELOW[] = "durability=external,groups=delimiter:/,group_table_bytes_min=4KiB";

static int same(esker_slice slice, const char *text) {
  return slice.data != NULL && slice.len == strlen(text) && memcmp(slice.data, text, slice.len) == 0;
}

/* The value of a key now, or as it is persistent; "" if there is none. */
static const char *value_of(esker_keyspace *keyspace, const esker_snapshot *snapshot, const char *key, int persisted) {
  static char text[64];
  esker_slice value = {NULL, 0};
  if (persisted) OK(esker_get_persisted(keyspace, key, strlen(key), &value));
  else OK(esker_get(keyspace, snapshot, key, strlen(key), &value));
  CHECK(value.len < sizeof text);
  memcpy(text, value.len > 0 ? value.data : "", value.len);
  text[value.len] = 0;
  esker_free(value.data);
  return text;
}

#define NOW(key, text) CHECK(strcmp(value_of(keyspace, NULL, (key), 0), (text)) == 0)
#define PERSISTED(key, text) CHECK(strcmp(value_of(keyspace, NULL, (key), 1), (text)) == 0)

/* Applies a request of two writes, of which one is long enough for a table of the group's own. */
static esker_code apply(esker_db *db, esker_keyspace *keyspace, const char *group, uint64_t index, const char *value) {
  esker_batch *batch;
  char key[32], pad[32], note[32], long_value[16 << 10];
  uint32_t random = 1;
  for (size_t i = 0; i < sizeof long_value; i++) long_value[i] = (char)((random = random * 1664525u + 1013904223u) >> 24);
  snprintf(key, sizeof key, "%skey", group);
  snprintf(pad, sizeof pad, "%spad", group);
  snprintf(note, sizeof note, "term %d", (int)index);
  OK(esker_batch_create(&batch));
  OK(esker_batch_put(batch, keyspace, key, strlen(key), value, strlen(value)));
  OK(esker_batch_put(batch, keyspace, pad, strlen(pad), long_value, sizeof long_value));
  esker_code code = esker_apply(db, batch, group, strlen(group), index, note, strlen(note));
  /* It is emptied by what was done, and by nothing else. */
  CHECK(esker_batch_len(batch) == (code == ESKER_OK ? 0 : 2));
  OK(esker_batch_close(batch));
  return code;
}

static void is_at(esker_db *db, const char *group, uint64_t applied, uint64_t persisted, const char *note) {
  esker_group_index *state;
  OK(esker_group(db, group, strlen(group), &state));
  CHECK(state != NULL);
  if (state == NULL) return;
  CHECK(same(state->group, group) && same(state->note, note));
  CHECK(state->applied == applied && state->persisted == persisted);
  esker_groups_free(state, 1);
}

static int keys_of(esker_keyspace *keyspace, const esker_scan_options *options) {
  esker_cursor *cursor;
  int count = 0;
  OK(esker_scan(keyspace, options, &cursor));
  OK(esker_cursor_seek_to_first(cursor));
  while (esker_cursor_valid(cursor)) {
    count++;
    OK(esker_cursor_next(cursor));
  }
  OK(esker_cursor_close(cursor));
  return count;
}

static int unordered_keys_of(esker_keyspace *keyspace, const esker_scan_options *options) {
  esker_unordered *cursor;
  int count = 0;
  bool found = true;
  OK(esker_scan_unordered(keyspace, options, 1 << 20, &cursor));
  while (found && esker_unordered_next(cursor, &found) == ESKER_OK && found) count++;
  OK(esker_unordered_close(cursor));
  return count;
}

/* What is applied is seen at once; what is persistent is what was flushed. */
static void applying(esker_db *db, esker_keyspace *keyspace) {
  esker_group_index *groups = (esker_group_index *)1;
  size_t count = 7;
  OK(esker_groups(db, &groups, &count));
  CHECK(groups == NULL && count == 0);
  esker_groups_free(groups, count);
  OK(apply(db, keyspace, "1/", 4, "a"));
  uint64_t index = 7;
  OK(esker_flush_group(db, "1/", 2, &index));
  CHECK(index == 4);
  OK(apply(db, keyspace, "1/", 5, "b"));
  OK(apply(db, keyspace, "2/", 9, "c"));
  is_at(db, "1/", 5, 4, "term 5");
  is_at(db, "2/", 9, 0, "term 9");
  NOW("1/key", "b");
  PERSISTED("1/key", "a");
  NOW("2/key", "c");
  PERSISTED("2/key", "");
  esker_scan_options all = {.persisted = 0}, persisted = {.persisted = 2};
  CHECK(keys_of(keyspace, &all) == 4 && keys_of(keyspace, &persisted) == 2);
  CHECK(unordered_keys_of(keyspace, &all) == 4 && unordered_keys_of(keyspace, &persisted) == 2);
  esker_snapshot *before;
  OK(esker_persisted_snapshot(db, &before));
  OK(esker_flush_oldest(db));
  is_at(db, "1/", 5, 5, "term 5");
  is_at(db, "2/", 9, 9, "term 9");
  PERSISTED("1/key", "b");
  PERSISTED("2/key", "c");
  CHECK(strcmp(value_of(keyspace, before, "1/key", 0), "a") == 0);
  CHECK(strcmp(value_of(keyspace, before, "2/key", 0), "") == 0);
  OK(esker_snapshot_close(before));
  OK(esker_groups(db, &groups, &count));
  CHECK(count == 2 && same(groups[0].group, "1/") && same(groups[1].group, "2/"));
  CHECK(groups[1].applied == 9 && groups[1].persisted == 9 && same(groups[1].note, "term 9"));
  esker_groups_free(groups, count);
  /* A request without writes, and a note without bytes. */
  esker_batch *empty;
  OK(esker_batch_create(&empty));
  OK(esker_apply(db, empty, "2/", 2, 10, NULL, 0));
  OK(esker_batch_close(empty));
  OK(esker_flush_group(db, "2/", 2, NULL));
  is_at(db, "2/", 10, 10, "");
  OK(esker_flush_group(db, "never/", 6, &index));
  CHECK(index == 0);
  OK(esker_group(db, "never/", 6, &groups));
  CHECK(groups == NULL);
  esker_groups_free(NULL, 1);
}

static void statistics(esker_db *db) {
  esker_group_tables *tables;
  size_t count;
  OK(esker_group_stats(db, &tables, &count));
  CHECK(count == 2 && same(tables[0].group, "1/") && same(tables[1].group, "2/"));
  if (count == 2) {
    CHECK(tables[0].applied == 5 && tables[0].persisted == 5 && tables[1].applied == 10);
    CHECK(tables[0].tables == 2 && tables[0].entries == 4 && tables[0].table_bytes > 0);
    CHECK(tables[1].tables == 1 && tables[1].entries == 2);
    CHECK(tables[0].shared_tables == 0 && tables[0].value_bytes == 0);
  }
  esker_group_stats_free(tables, count);
  esker_group_stats_free(NULL, 2);
}

/* A group goes from store to store, in the place of what is there of it. */
static void carrying(esker_db *db, esker_keyspace *source) {
  esker_group_files files;
  OK(esker_export_group(db, "1/", 2, "export", &files));
  CHECK(files.index == 5 && same(files.note, "term 5") && files.tables == 1 && files.file_bytes > 0);
  esker_free(files.note.data);
  FAILS(ESKER_INVALID_ARGUMENT, "export", esker_export_group(db, "1/", 2, "export", &files));
  CHECK(files.index == 0 && files.note.data == NULL && files.tables == 0);
  FAILS(ESKER_INVALID_ARGUMENT, "never/ is persistent", esker_export_group(db, "never/", 6, "export of nothing", NULL));
  FAILS(ESKER_INVALID_ARGUMENT, "path is NULL", esker_export_group(db, "1/", 2, NULL, NULL));
  esker_db *other;
  esker_keyspace *keyspace;
  OK(esker_open("other", BELOW, &other));
  OK(esker_default_keyspace(other, &keyspace));
  OK(apply(other, keyspace, "1/", 2, "old"));
  OK(apply(other, keyspace, "3/", 1, "mine"));
  FAILS(ESKER_NOT_FOUND, "nowhere", esker_ingest_group(other, "1/", 2, "nowhere", &files));
  FAILS(ESKER_INVALID_ARGUMENT, "does not hold the group 3/", esker_ingest_group(other, "3/", 2, "export", NULL));
  is_at(other, "1/", 2, 0, "term 2");
  OK(esker_ingest_group(other, "1/", 2, "export", &files));
  CHECK(files.index == 5 && same(files.note, "term 5") && files.tables == 1);
  esker_free(files.note.data);
  is_at(other, "1/", 5, 5, "term 5");
  NOW("1/key", "b");
  PERSISTED("1/key", "b");
  NOW("3/key", "mine");
  FAILS(ESKER_INVALID_ARGUMENT, "the newest that was is 5", apply(other, keyspace, "1/", 5, "again"));
  OK(apply(other, keyspace, "1/", 6, "on"));
  NOW("1/key", "on");
  OK(esker_keyspace_close(keyspace));
  OK(esker_close(other));
  keyspace = source;
  NOW("1/key", "b");
}

static void deleting(esker_db *db, esker_keyspace *keyspace) {
  esker_deleted_group deleted = {9, 9, 9, 9};
  FAILS(ESKER_INVALID_ARGUMENT, "empty", esker_delete_group(db, NULL, 0, &deleted));
  CHECK(deleted.tables == 0 && deleted.shared_tables == 0);
  OK(esker_delete_group(db, "1/", 2, &deleted));
  CHECK(deleted.tables == 2 && deleted.file_bytes > 0 && deleted.value_files == 0 && deleted.shared_tables == 0);
  NOW("1/key", "");
  NOW("2/key", "c");
  esker_group_index *state;
  OK(esker_group(db, "1/", 2, &state));
  CHECK(state == NULL);
  /* It may be made anew, with any index. */
  OK(apply(db, keyspace, "1/", 1, "new"));
  NOW("1/key", "new");
  OK(esker_delete_group(db, "1/", 2, NULL));
  OK(esker_delete_group(db, "1/", 2, &deleted));
  CHECK(deleted.tables == 0 && deleted.file_bytes == 0);
}

static void refused(esker_db *db, esker_keyspace *keyspace) {
  static const char long_note[(64 << 10) + 1];
  FAILS(ESKER_INVALID_ARGUMENT, "request 9 of group 2/ was not applied: the newest that was is 10",
        apply(db, keyspace, "2/", 9, "late"));
  FAILS(ESKER_INVALID_ARGUMENT, "the newest that was is 10", apply(db, keyspace, "2/", 10, "twice"));
  NOW("2/key", "c");
  FAILS(ESKER_INVALID_ARGUMENT, "name of a group is empty", apply(db, keyspace, "", 1, "nameless"));
  esker_batch *batch;
  OK(esker_batch_create(&batch));
  FAILS(ESKER_INVALID_ARGUMENT, "longer than 64 KiB", esker_apply(db, batch, "2/", 2, 11, long_note, sizeof long_note));
  FAILS(ESKER_INVALID_ARGUMENT, "NULL although", esker_apply(db, batch, NULL, 2, 11, NULL, 0));
  FAILS(ESKER_MISUSE, "NULL", esker_apply(db, NULL, "2/", 2, 11, NULL, 0));
  OK(esker_batch_put(batch, keyspace, "2/key", 5, "d", 1));
  FAILS(ESKER_INVALID_ARGUMENT, "no log to be synced", esker_write(db, batch, true));
  size_t count;
  esker_group_index *groups;
  FAILS(ESKER_MISUSE, "place for a result", esker_groups(db, NULL, &count));
  FAILS(ESKER_MISUSE, "place for a result", esker_groups(db, &groups, NULL));
  FAILS(ESKER_MISUSE, "place for a result", esker_group(db, "2/", 2, NULL));
  FAILS(ESKER_MISUSE, "place for a result", esker_group_stats(db, NULL, &count));
  FAILS(ESKER_MISUSE, "place for a result", esker_get_persisted(keyspace, "2/key", 5, NULL));
  FAILS(ESKER_MISUSE, "place for a result", esker_persisted_snapshot(db, NULL));

  esker_db *logged;
  esker_keyspace *its;
  uint64_t index = 7;
  const char *own_log = "the store has a log of its own";
  OK(esker_open("logged", NULL, &logged));
  OK(esker_default_keyspace(logged, &its));
  FAILS(ESKER_INVALID_ARGUMENT, own_log, apply(logged, its, "1/", 1, "x"));
  FAILS(ESKER_INVALID_ARGUMENT, "another database", esker_apply(logged, batch, "2/", 2, 11, NULL, 0));
  FAILS(ESKER_INVALID_ARGUMENT, own_log, esker_flush_group(logged, "1/", 2, &index));
  CHECK(index == 0);
  FAILS(ESKER_INVALID_ARGUMENT, own_log, esker_flush_oldest(logged));
  FAILS(ESKER_INVALID_ARGUMENT, own_log, esker_ingest_group(logged, "1/", 2, "export", NULL));
  FAILS(ESKER_INVALID_ARGUMENT, own_log, esker_export_group(logged, "1/", 2, "never", NULL));
  esker_snapshot *snapshot = (esker_snapshot *)1;
  FAILS(ESKER_INVALID_ARGUMENT, own_log, esker_persisted_snapshot(logged, &snapshot));
  CHECK(snapshot == NULL);
  OK(esker_batch_close(batch));
  OK(esker_keyspace_close(its));
  OK(esker_close(logged));
  FAILS(ESKER_MISUSE, "no open esker_db", esker_flush_oldest(logged));
  FAILS(ESKER_MISUSE, "no open esker_db", esker_delete_group(logged, "1/", 2, NULL));
}

int main(void) {
  esker_db *db;
  esker_keyspace *keyspace;
  esker_snapshot *snapshot;
  OK(esker_open("below", BELOW, &db));
  OK(esker_default_keyspace(db, &keyspace));
  applying(db, keyspace);
  statistics(db);
  carrying(db, keyspace);
  deleting(db, keyspace);
  refused(db, keyspace);
  OK(esker_persisted_snapshot(db, &snapshot));
  OK(esker_close(db));
  esker_slice value;
  FAILS(ESKER_MISUSE, "database is closed", esker_get_persisted(keyspace, "2/key", 5, &value));
  OK(esker_snapshot_close(snapshot));
  OK(esker_keyspace_close(keyspace));
  /* What was closed is persistent, and begins where it ended. */
  OK(esker_open("below", BELOW, &db));
  is_at(db, "2/", 10, 10, "");
  OK(esker_close(db));
  return failed;
}
