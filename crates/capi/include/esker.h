/* Esker, an embedded key-value store. Made by `cargo xtask header`: change the Rust instead.

   Functions that can fail return a code, which is ESKER_OK or says what to do next;
   esker_last_error has the text. After an error, what a result points to is NULL, 0 or false.
   Handles are opaque, come from the function that makes them and are closed by the function that is
   named for that, in any order. After esker_close whatever belongs to the database fails with
   ESKER_MISUSE, and still has to be closed. A handle that was closed, NULL, or of another kind is
   told with ESKER_MISUSE as well, as far as that can be seen; do not rely on it.

   Keys and values are any bytes, with a length. Text ends in a zero and is UTF-8, but for names and
   texts of fields that are given out, which have a length and no zero. What is to be freed is freed
   with esker_free, or free. Databases, keyspaces and snapshots may be used by several threads at
   once; every other handle by one at a time. A handle must not be closed while another thread uses
   it. No function unwinds, and none calls back. */

#ifndef ESKER_H_
#define ESKER_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 How a call ended.
 */
typedef enum {
  /*
   Well. That a key is not there is no error.
   */
  ESKER_OK = 0,
  /*
   The call was wrong, and nothing changed: fix it.
   */
  ESKER_INVALID_ARGUMENT = 1,
  /*
   Stored bytes are not what was written: restore, or repair.
   */
  ESKER_CORRUPTION = 2,
  /*
   The store was made with a format or options that this call cannot work with.
   */
  ESKER_INCOMPATIBLE = 3,
  /*
   The operating system refused.
   */
  ESKER_IO = 4,
  /*
   The disk is full. Reads go on; writes work again once there is space.
   */
  ESKER_NO_SPACE = 5,
  /*
   Another process or handle has the store open.
   */
  ESKER_BUSY = 6,
  /*
   There is no store.
   */
  ESKER_NOT_FOUND = 7,
  /*
   The store was opened for reading only.
   */
  ESKER_READ_ONLY = 8,
  /*
   An earlier failure left the state on the disk unknown: reopen the store to write again.
   */
  ESKER_POISONED = 9,
  /*
   Cancelled by the store closing.
   */
  ESKER_CANCELLED = 10,
  /*
   A handle is NULL, closed, of another kind, or its database is closed; or a place for a
   result is NULL.
   */
  ESKER_MISUSE = 11,
  /*
   A bug of Esker. What the call did is unknown.
   */
  ESKER_INTERNAL = 12,
} esker_code;

/*
 What kind of value a field holds.
 */
typedef enum {
  /*
   Nothing.
   */
  ESKER_NULL = 0,
  /*
   `boolean`.
   */
  ESKER_BOOL = 1,
  /*
   `integer`.
   */
  ESKER_INT = 2,
  /*
   `number`.
   */
  ESKER_FLOAT = 3,
  /*
   `data` and `len`, in UTF-8.
   */
  ESKER_TEXT = 4,
  /*
   `data` and `len`.
   */
  ESKER_BYTES = 5,
} esker_field_type;

/*
 Writes that are done together.
 */
typedef struct esker_batch esker_batch;

/*
 Walks keys in their order, in both directions.
 */
typedef struct esker_cursor esker_cursor;

/*
 An open database.
 */
typedef struct esker_db esker_db;

/*
 Keys that were found, in the order of what the field holds.
 */
typedef struct esker_found esker_found;

/*
 A keyspace of an open database.
 */
typedef struct esker_keyspace esker_keyspace;

/*
 Named values: a value of the store as a person sees it.
 */
typedef struct esker_record esker_record;

/*
 A database as it was at one moment.
 */
typedef struct esker_snapshot esker_snapshot;

/*
 Walks keys in no order that means anything, fast where values are kept apart.
 */
typedef struct esker_unordered esker_unordered;

/*
 Options of a keyspace that exists when the database is opened.
 */
typedef struct {
  /*
   Its name.
   */
  const char *name;
  /*
   Its options, as in `esker_create_keyspace`.
   */
  const char *options;
} esker_keyspace_options;

/*
 Bytes.
 */
typedef struct {
  /*
   Where they begin. NULL is no bytes, or, of a value, that there is none.
   */
  char *data;
  /*
   How many there are.
   */
  size_t len;
} esker_slice;

/*
 What a scan covers and how it reads. All zeros is every key, as of now.
 */
typedef struct {
  /*
   First key; NULL is the first of all.
   */
  const void *start;
  /*
   Length of it.
   */
  size_t start_len;
  /*
   End, exclusive; NULL is after the last of all.
   */
  const void *end;
  /*
   Length of it.
   */
  size_t end_len;
  /*
   The moment to read at; NULL is now.
   */
  const esker_snapshot *snapshot;
  /*
   Not 0: read no values, they are empty then.
   */
  uint8_t keys_only;
  /*
   Not 0: do not keep blocks that are read in the cache, for scans of everything.
   */
  uint8_t past_cache;
  /*
   Not 0: read only what is in tables, which is what a crash cannot take from a database with
   `durability=external`.
   */
  uint8_t persisted;
} esker_scan_options;

/*
 The value of a field. Of its members those count that the type names.
 */
typedef struct {
  /*
   A number of `esker_field_type`.
   */
  int32_t kind;
  /*
   Of `ESKER_BOOL`: 0 is false, everything else true.
   */
  uint8_t boolean;
  /*
   Of `ESKER_INT`.
   */
  int64_t integer;
  /*
   Of `ESKER_FLOAT`.
   */
  double number;
  /*
   Of `ESKER_TEXT` and `ESKER_BYTES`.
   */
  const char *data;
  /*
   Length of `data`.
   */
  size_t len;
} esker_field;

/*
 How far the log of a group was applied.
 */
typedef struct {
  /*
   Its name: what its keys begin with.
   */
  esker_slice group;
  /*
   Index of the newest request that was applied.
   */
  uint64_t applied;
  /*
   Index of the newest request that is persistent, with all before it: what a crash would go
   back to. 0 if there is none.
   */
  uint64_t persisted;
  /*
   The note of the newest request that was applied.
   */
  esker_slice note;
} esker_group_index;

/*
 How far the log of a group was applied, and what the group has of the tables.
 */
typedef struct {
  /*
   Its name: what its keys begin with.
   */
  esker_slice group;
  /*
   Index of the newest request that was applied.
   */
  uint64_t applied;
  /*
   Index of the newest request that is persistent; 0 if none is.
   */
  uint64_t persisted;
  /*
   Tables that hold nothing else.
   */
  uint64_t tables;
  /*
   Bytes of these.
   */
  uint64_t table_bytes;
  /*
   Point records in them, tombstones and hidden ones included.
   */
  uint64_t entries;
  /*
   Bytes of values kept apart that they point to.
   */
  uint64_t value_bytes;
  /*
   Tables that it may share with others: their keys begin before it, or end behind it.
   */
  uint64_t shared_tables;
} esker_group_tables;

/*
 What the deletion of a group has done.
 */
typedef struct {
  /*
   Tables that held nothing else, and are gone.
   */
  uint64_t tables;
  /*
   Files with values of which nothing else was needed, and which are gone.
   */
  uint64_t value_files;
  /*
   Bytes of these files. They are free when this is told, unless somebody still reads them: a
   cursor, an export, a compaction or a collection of values.
   */
  uint64_t file_bytes;
  /*
   Tables that share what was deleted with others: it is hidden, and left out when they are
   rewritten.
   */
  uint64_t shared_tables;
} esker_deleted_group;

/*
 A group as files.
 */
typedef struct {
  /*
   Index of the newest request that they hold.
   */
  uint64_t index;
  /*
   Its note; `data` is to be freed.
   */
  esker_slice note;
  /*
   Tables.
   */
  uint64_t tables;
  /*
   Files of values that are kept apart.
   */
  uint64_t value_files;
  /*
   Bytes of all of them.
   */
  uint64_t file_bytes;
} esker_group_files;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 What went wrong in the last call on this thread that failed: good until the next that fails.
 Empty if none has.
 */
const char *esker_last_error(void);

/*
 Opens the database in the directory `path`, and makes it if it is not there, unless the options
 say otherwise.

 `options`: `name=value` with commas between, see docs/c-api.md; NULL is the defaults. Those of
 keyspaces count for all keyspaces.
 */
esker_code esker_open(const char *path, const char *options, esker_db **db);

/*
 Opens a database with options of their own for some of its keyspaces, or for reading only, when
 nothing on the disk changes and it must be there. Options of a keyspace that is not there are an
 error: see `esker_create_keyspace`.
 */
esker_code esker_open_with(const char *path,
                           const char *options,
                           const esker_keyspace_options *keyspaces,
                           size_t keyspaces_count,
                           bool read_only,
                           esker_db **db);

/*
 Closes a database and its handle: what was written is durable when it returns `ESKER_OK`. It is
 closed in any case.

 What belongs to it, such as keyspaces and cursors, must not be in use by other threads; it is of
 no use afterwards, and still has to be closed.
 */
esker_code esker_close(esker_db *db);

/*
 The keyspace that every database has.
 */
esker_code esker_default_keyspace(const esker_db *db, esker_keyspace **keyspace);

/*
 A keyspace that exists.
 */
esker_code esker_open_keyspace(const esker_db *db, const char *name, esker_keyspace **keyspace);

/*
 Makes a keyspace. `options`: those of a keyspace, `name=value` with commas between. What they do
 not say is as the options say that the database was opened with; NULL is all of it.
 */
esker_code esker_create_keyspace(const esker_db *db, const char *name, const char *options, esker_keyspace **keyspace);

/*
 Removes a keyspace with everything in it. Calls with handles to it fail from then on.
 */
esker_code esker_drop_keyspace(const esker_db *db, const char *name);

/*
 The names of all keyspaces, as a JSON array, the default one first; to be freed.
 */
esker_code esker_keyspace_names(const esker_db *db, char **json);

/*
 Closes the handle of a keyspace, which stays as it is.
 */
esker_code esker_keyspace_close(esker_keyspace *keyspace);

/*
 A snapshot of a database. While it lives, what it sees is kept.
 */
esker_code esker_snapshot_create(const esker_db *db, esker_snapshot **snapshot);

/*
 Releases a snapshot.
 */
esker_code esker_snapshot_close(esker_snapshot *snapshot);

/*
 Removes the closed database in the directory `path` from the disk.
 */
esker_code esker_destroy(const char *path);

/*
 Makes the damaged database in the directory `path` one that opens: what could not be used is put
 into its directory `lost`. `options`: as in `esker_open`. `report`: every loss, as JSON, to be
 freed; may be NULL.
 */
esker_code esker_repair(const char *path, const char *options, char **report);

/*
 Frees text, values and arrays that a function of this interface has returned to be freed. NULL
 is allowed.
 */
void esker_free(void *memory);

/*
 Sets a key. That survives the death of the process, unless the database was opened with
 `durability=external`; for power cuts see `esker_sync` and `esker_write`.
 */
esker_code esker_put(const esker_keyspace *keyspace,
                     const void *key,
                     size_t key_len,
                     const void *value,
                     size_t value_len);

/*
 Removes a key, which need not be there.
 */
esker_code esker_delete(const esker_keyspace *keyspace, const void *key, size_t key_len);

/*
 Removes every key from `start`, inclusive, to `end`, exclusive. One record, whatever the number
 of keys; but in a keyspace with indexes of fields every key of the range is read and held in
 memory, a record is written for each entry that goes, and nobody else writes to such keyspaces
 meanwhile: delete large ranges by parts.
 */
esker_code esker_delete_range(const esker_keyspace *keyspace,
                              const void *start,
                              size_t start_len,
                              const void *end,
                              size_t end_len);

/*
 The value of a key, to be freed; NULL if the key is not there. `snapshot`: the moment to read
 at; NULL is now.
 */
esker_code esker_get(const esker_keyspace *keyspace,
                     const esker_snapshot *snapshot,
                     const void *key,
                     size_t key_len,
                     esker_slice *value);

/*
 The values of several keys as of one moment, each as in `esker_get`, in the order of the keys.
 After an error there are none. `keys` and `values` may be the same array.
 */
esker_code esker_multi_get(const esker_keyspace *keyspace,
                           const esker_snapshot *snapshot,
                           const esker_slice *keys,
                           size_t count,
                           esker_slice *values);

/*
 Makes an empty batch.
 */
esker_code esker_batch_create(esker_batch **batch);

/*
 Frees a batch.
 */
esker_code esker_batch_close(esker_batch *batch);

/*
 Forgets all writes of a batch.
 */
esker_code esker_batch_clear(esker_batch *batch);

/*
 How many writes a batch has; 0 of what is none.
 */
uint32_t esker_batch_len(const esker_batch *batch);

/*
 Adds setting a key. A key or value that is too long is told of when the batch is written.
 */
esker_code esker_batch_put(esker_batch *batch,
                           const esker_keyspace *keyspace,
                           const void *key,
                           size_t key_len,
                           const void *value,
                           size_t value_len);

/*
 Adds removing a key.
 */
esker_code esker_batch_delete(esker_batch *batch, const esker_keyspace *keyspace, const void *key, size_t key_len);

/*
 Adds removing every key from `start`, inclusive, to `end`, exclusive.
 */
esker_code esker_batch_delete_range(esker_batch *batch,
                                    const esker_keyspace *keyspace,
                                    const void *start,
                                    size_t start_len,
                                    const void *end,
                                    size_t end_len);

/*
 Writes a batch, all of it or nothing, and empties it; after an error it is as it was. `sync`:
 return only when it, and every write before it, is on stable storage; refused with
 `durability=external`. A batch has less than 2 GiB, no more than 1 000 records longer than 1
 MiB, and takes no more than 3 GiB of a memtable.
 */
esker_code esker_write(const esker_db *db, esker_batch *batch, bool sync);

/*
 A cursor over a range, which stands on no key. `options`: NULL is every key, as of now. A range
 that ends before it starts is an invalid argument.
 */
esker_code esker_scan(const esker_keyspace *keyspace, const esker_scan_options *options, esker_cursor **cursor);

/*
 Closes a cursor.
 */
esker_code esker_cursor_close(esker_cursor *cursor);

/*
 Moves to the first key of the range.
 */
esker_code esker_cursor_seek_to_first(esker_cursor *cursor);

/*
 Moves to the last key of the range.
 */
esker_code esker_cursor_seek_to_last(esker_cursor *cursor);

/*
 Moves to the first key of the range at or after `key`.
 */
esker_code esker_cursor_seek(esker_cursor *cursor, const void *key, size_t key_len);

/*
 Moves to the last key of the range before `key`.
 */
esker_code esker_cursor_seek_before(esker_cursor *cursor, const void *key, size_t key_len);

/*
 Moves to the following key; from the last, and from none, to none.
 */
esker_code esker_cursor_next(esker_cursor *cursor);

/*
 Moves to the preceding key; from the first, and from none, to none.
 */
esker_code esker_cursor_prev(esker_cursor *cursor);

/*
 True if the cursor stands on a key: not at the ends, after an error, nor once its database is
 closed.
 */
bool esker_cursor_valid(const esker_cursor *cursor);

/*
 The key, good until the cursor moves; NULL if it stands on none.
 */
const char *esker_cursor_key(const esker_cursor *cursor, size_t *len);

/*
 The value, good until the cursor moves; NULL if it stands on no key.
 */
const char *esker_cursor_value(const esker_cursor *cursor, size_t *len);

/*
 A cursor over a range that gives pairs in the order in which values stand on the disk.
 `memory_bytes`: what it may take for keys and places before it reads their values; some tens of
 MiB are plenty.
 */
esker_code esker_scan_unordered(const esker_keyspace *keyspace,
                                const esker_scan_options *options,
                                size_t memory_bytes,
                                esker_unordered **cursor);

/*
 Moves to a key that was not given yet. `found`: false if there is none.
 */
esker_code esker_unordered_next(esker_unordered *cursor, bool *found);

/*
 The key, good until the cursor moves; NULL if it stands on none.
 */
const char *esker_unordered_key(const esker_unordered *cursor, size_t *len);

/*
 The value, good until the cursor moves; NULL if it stands on no key.
 */
const char *esker_unordered_value(const esker_unordered *cursor, size_t *len);

/*
 Closes a cursor.
 */
esker_code esker_unordered_close(esker_unordered *cursor);

/*
 Makes a record without fields.
 */
esker_code esker_record_create(esker_record **record);

/*
 Frees a record.
 */
esker_code esker_record_close(esker_record *record);

/*
 Sets a field, in the place of one of the same name. `name`: 1 to 255 bytes; that another is no
 name is told when the record is put.
 */
esker_code esker_record_set(esker_record *record, const char *name, const esker_field *value);

/*
 Removes a field, which need not be there.
 */
esker_code esker_record_remove(esker_record *record, const char *name);

/*
 How many fields a record has; 0 of what is none.
 */
size_t esker_record_len(const esker_record *record);

/*
 What a field holds; text and bytes are good until the record changes. `found`: false if there is
 no such field.
 */
esker_code esker_record_get(const esker_record *record, const char *name, esker_field *value, bool *found);

/*
 A field by its number in the order of names, from 0; all is good until the record changes.
 */
esker_code esker_record_at(const esker_record *record,
                           size_t number,
                           const char **name,
                           size_t *name_len,
                           esker_field *value);

/*
 Sets a key to a record.
 */
esker_code esker_put_record(const esker_keyspace *keyspace,
                            const void *key,
                            size_t key_len,
                            const esker_record *record);

/*
 The record of a key, to be closed; NULL if the key is not there. A value that is no record is an
 error.
 */
esker_code esker_get_record(const esker_keyspace *keyspace,
                            const esker_snapshot *snapshot,
                            const void *key,
                            size_t key_len,
                            esker_record **record);

/*
 Makes an index of a field. Returns at once; the background builds it.
 */
esker_code esker_create_index(const esker_keyspace *keyspace, const char *field);

/*
 Removes an index.
 */
esker_code esker_drop_index(const esker_keyspace *keyspace, const char *field);

/*
 Waits until the index of a field is ready.
 */
esker_code esker_wait_index(const esker_keyspace *keyspace, const char *field);

/*
 The indexes of a keyspace, as a JSON array of objects with `field`, `ready` and `keys_done`; to
 be freed.
 */
esker_code esker_indexes(const esker_keyspace *keyspace, char **json);

/*
 The keys of records whose field holds this value, in order, by an index. An invalid argument as
 long as that is not ready (`esker_wait_index`), and at a snapshot from before it was.
 */
esker_code esker_find(const esker_keyspace *keyspace,
                      const esker_snapshot *snapshot,
                      const char *field,
                      const esker_field *value,
                      esker_found **found);

/*
 The keys of records whose field holds a value of a range, in the order of the values, by an
 index. A bound that is NULL is open; `from_inclusive` and `to_inclusive` say whether bounds
 belong to the range. The index must be ready, as for `esker_find`.
 */
esker_code esker_find_range(const esker_keyspace *keyspace,
                            const esker_snapshot *snapshot,
                            const char *field,
                            const esker_field *from,
                            bool from_inclusive,
                            const esker_field *to,
                            bool to_inclusive,
                            esker_found **found);

/*
 Moves to the next key, at first to the first. `more`: false if there is none.
 */
esker_code esker_found_next(esker_found *found, bool *more);

/*
 The key of a record, good until the next move; NULL if it stands on none.
 */
const char *esker_found_key(const esker_found *found, size_t *len);

/*
 What the field of that record holds; text and bytes are good until the next move.
 */
esker_code esker_found_value(const esker_found *found, esker_field *value);

/*
 Closes what was found.
 */
esker_code esker_found_close(esker_found *found);

/*
 The keys of records whose field holds this value, in order, without an index: reads all records.
 `keys`: an array, to be freed with `esker_slices_free`; NULL if there are none.
 */
esker_code esker_get_keys_by_field(const esker_keyspace *keyspace,
                                   const esker_snapshot *snapshot,
                                   const char *name,
                                   const esker_field *value,
                                   esker_slice **keys,
                                   size_t *count);

/*
 Frees an array of so many slices, and what they lead to. NULL is allowed.
 */
void esker_slices_free(esker_slice *slices, size_t count);

/*
 Applies a request of somebody else's log, to a database that was opened with
 `durability=external`: the batch, and how far the log of `group` is then, become visible and
 persistent together. Empties the batch; after an error it is as it was.

 `group`: what the keys of the batch begin with, 1 B to 1 KiB. `index`: that of the request in
 the log of the group, above that of all that were applied before. `note`: bytes that are kept
 with the index, at most 64 KiB. Requests of a group are applied in the order of its log, one
 after the other; several groups may be applied to by several threads. A batch without writes is
 a request too. See docs/external-durability.md.
 */
esker_code esker_apply(const esker_db *db,
                       esker_batch *batch,
                       const void *group,
                       size_t group_len,
                       uint64_t index,
                       const void *note,
                       size_t note_len);

/*
 The value of a key as tables have it, memtables left out, to be freed; NULL if they have none.
 With `durability=external` that is what a crash would leave now.
 */
esker_code esker_get_persisted(const esker_keyspace *keyspace, const void *key, size_t key_len, esker_slice *value);

/*
 A snapshot of a database, in all keyspaces, as a crash would leave it now. It must have been
 opened with `durability=external`. Scans that are to read what is persistent as of now have
 `persisted` of `esker_scan_options`.
 */
esker_code esker_persisted_snapshot(const esker_db *db, esker_snapshot **snapshot);

/*
 How far the log of a group was applied, to be freed with `esker_groups_free(state, 1)`; NULL if
 it never was, or the group was deleted.
 */
esker_code esker_group(const esker_db *db, const void *group, size_t group_len, esker_group_index **state);

/*
 How far the logs of all groups were applied, in the order of their names. Right after the
 database was opened that is what is persistent. `groups`: an array, to be freed with
 `esker_groups_free`; NULL if there are none.
 */
esker_code esker_groups(const esker_db *db, esker_group_index **groups, size_t *count);

/*
 Frees an array of so many groups, and what they lead to. NULL is allowed.
 */
void esker_groups_free(esker_group_index *groups, size_t count);

/*
 How far the logs of all groups were applied, and what each has of the tables, in the order of
 their names. `groups`: an array, to be freed with `esker_group_stats_free`; NULL if there are
 none.
 */
esker_code esker_group_stats(const esker_db *db, esker_group_tables **groups, size_t *count);

/*
 Frees an array of statistics of so many groups. NULL is allowed.
 */
void esker_group_stats_free(esker_group_tables *groups, size_t count);

/*
 Makes persistent what was applied to a group, along with everything that is in the same
 memtables, and waits for it. `index`: up to where the log of the group may be cut off then; 0 if
 there is nothing of it. May be NULL.
 */
esker_code esker_flush_group(const esker_db *db, const void *group, size_t group_len, uint64_t *index);

/*
 Makes persistent what was applied first of all that is not persistent yet, and waits for it: for
 logs that grow too long since one group of many is idle.
 */
esker_code esker_flush_oldest(const esker_db *db);

/*
 Deletes a group, in all keyspaces with keys in bytewise order: every key that begins with its
 name, and how far its log was applied. Nobody sees it from then on, not even at an older
 snapshot; only cursors that were there before read on. After a crash it is there as a whole, or
 gone as a whole; once this has returned, gone. Nothing must be applied to it meanwhile. Refused
 where a keyspace has an index of a field. `deleted`: what was done; may be NULL.
 */
esker_code esker_delete_group(const esker_db *db, const void *group, size_t group_len, esker_deleted_group *deleted);

/*
 Writes what is persistent of a group, at one moment, into the new directory `path`: a store of
 its own, with how far its log was applied, for `esker_ingest_group` of another database. Nobody
 waits for it. Refused where a keyspace has an index of a field, or keys that are not in bytewise
 order. `files`: what was written; may be NULL.
 */
esker_code esker_export_group(const esker_db *db,
                              const void *group,
                              size_t group_len,
                              const char *path,
                              esker_group_files *files);

/*
 Takes over a group that `esker_export_group` has written into the directory `path`, which stays
 as it is, in the place of what is there of it: persistent, and as far applied as it was there,
 when this returns. Until then readers find each keyspace as it was or as it will be, and how far
 it is last; no snapshot keeps what was there. A crash leaves one or the other as a whole.
 Nothing must be applied to it meanwhile. Refused where `esker_export_group` is. `files`: what
 has come; may be NULL.

 The directory may be removed afterwards, but its files must never be written to again: the
 database may have them, under other names.

 If the disk fails while it is flushed, nothing has changed, and it may be tried again; only a
 crash before the manifest is written next may find it in force, as a whole.
 */
esker_code esker_ingest_group(const esker_db *db,
                              const void *group,
                              size_t group_len,
                              const char *path,
                              esker_group_files *files);

/*
 Makes every write so far durable. Refused with `durability=external`, where there is no log:
 flush.
 */
esker_code esker_sync(const esker_db *db);

/*
 Writes all memtables to tables, and waits for it.
 */
esker_code esker_flush(const esker_db *db);

/*
 Waits until nothing is left to do in the background.
 */
esker_code esker_wait_idle(const esker_db *db);

/*
 Compacts everything from `start`, inclusive, to `end`, exclusive, into the deepest level in use,
 and drops what is deleted. NULL is open.
 */
esker_code esker_compact(const esker_keyspace *keyspace,
                         const void *start,
                         size_t start_len,
                         const void *end,
                         size_t end_len);

/*
 About how many bytes of tables the keys from `start` to `end` take. NULL is open.
 */
esker_code esker_approximate_size(const esker_keyspace *keyspace,
                                  const void *start,
                                  size_t start_len,
                                  const void *end,
                                  size_t end_len,
                                  uint64_t *size_bytes);

/*
 Makes a copy of the database in the directory `path`, which must not exist, as of now. Tables
 are shared where the file system allows it.
 */
esker_code esker_checkpoint(const esker_db *db, const char *path);

/*
 Reads everything but the log that is being written, and checks it. `sound`: false if something
 is damaged or an index does not agree with its records, which is no error of the call. `report`:
 what was read and what is damaged, as JSON, to be freed; may be NULL.
 */
esker_code esker_verify(const esker_db *db, bool *sound, char **report);

/*
 What the engine did and what it holds, as JSON, to be freed.
 */
esker_code esker_stats(const esker_db *db, char **json);

/*
 The version of Esker, such as `0.1.0`.
 */
const char *esker_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ESKER_H_ */
