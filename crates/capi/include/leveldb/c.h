/* LevelDB's C interface, version 1.23, on Esker. Made by `cargo xtask header`: change the Rust
   instead.

   Programs that were compiled with LevelDB's own header run on this library as they are; what
   differs stands in docs/c-api.md.

   Pointers to handles come from the functions that make them, and no pointer is NULL unless its
   function allows it. `errptr` leads to NULL, or to text that is freed when an error replaces it;
   where nothing fails it is left alone. Keys and values are bytes with a length. What is returned
   to be freed is freed with `leveldb_free`, or `free`. A database, a snapshot and options that
   nobody sets any more may be used by several threads at once, everything else by one at a time. */

#ifndef ESKER_LEVELDB_C_H_
#define ESKER_LEVELDB_C_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 No compression of blocks.
 */
#define leveldb_no_compression 0

/*
 Fast compression of blocks: LZ4, here.
 */
#define leveldb_snappy_compression 1

/*
 A size that databases take for their caches.
 */
typedef struct leveldb_cache_t leveldb_cache_t;

/*
 An order of keys.
 */
typedef struct leveldb_comparator_t leveldb_comparator_t;

/*
 The system: files, clock, threads.
 */
typedef struct leveldb_env_t leveldb_env_t;

/*
 What spares reads of tables without a key.
 */
typedef struct leveldb_filterpolicy_t leveldb_filterpolicy_t;

/*
 Walks the keys of a database as it was when the iterator was made, in order, in both directions.
 */
typedef struct leveldb_iterator_t leveldb_iterator_t;

/*
 Where messages would go; nothing makes one.
 */
typedef struct leveldb_logger_t leveldb_logger_t;

/*
 How to open a database.
 */
typedef struct leveldb_options_t leveldb_options_t;

/*
 How to read.
 */
typedef struct leveldb_readoptions_t leveldb_readoptions_t;

/*
 A database as it was at one moment.
 */
typedef struct leveldb_snapshot_t leveldb_snapshot_t;

/*
 An open database.
 */
typedef struct leveldb_t leveldb_t;

/*
 Writes that are done together, all or none.
 */
typedef struct leveldb_writebatch_t leveldb_writebatch_t;

/*
 How to write.
 */
typedef struct leveldb_writeoptions_t leveldb_writeoptions_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Makes options with LevelDB's defaults.
 */
leveldb_options_t *leveldb_options_create(void);

/*
 Frees options.
 */
void leveldb_options_destroy(leveldb_options_t *options);

/*
 The order of keys; NULL is the order of their bytes. A database keeps the order that it was made
 with.
 */
void leveldb_options_set_comparator(leveldb_options_t *options, leveldb_comparator_t *comparator);

/*
 What spares reads of tables without a key; NULL is a Bloom filter of 10 bits a key.
 */
void leveldb_options_set_filter_policy(leveldb_options_t *options, leveldb_filterpolicy_t *policy);

/*
 Make the database if there is none. Default: 0.
 */
void leveldb_options_set_create_if_missing(leveldb_options_t *options, uint8_t on);

/*
 Refuse a database that exists. Default: 0.
 */
void leveldb_options_set_error_if_exists(leveldb_options_t *options, uint8_t on);

/*
 Nothing that can be turned off: all checks are always made.
 */
void leveldb_options_set_paranoid_checks(leveldb_options_t *options, uint8_t on);

/*
 There is one environment, the system's.
 */
void leveldb_options_set_env(leveldb_options_t *options, leveldb_env_t *env);

/*
 There is no log of messages; what happens in the background `leveldb_property_value` tells.
 */
void leveldb_options_set_info_log(leveldb_options_t *options, leveldb_logger_t *log);

/*
 Bytes of a memtable. Default: 4 MiB.
 */
void leveldb_options_set_write_buffer_size(leveldb_options_t *options, size_t bytes);

/*
 Tables that are open at once. Default: 1000.
 */
void leveldb_options_set_max_open_files(leveldb_options_t *options, int files);

/*
 How much a database caches: as much as this cache may hold, for each database. NULL is 8 MiB.
 */
void leveldb_options_set_cache(leveldb_options_t *options, leveldb_cache_t *cache);

/*
 Bytes of a block before compression. Default: 4 KiB.
 */
void leveldb_options_set_block_size(leveldb_options_t *options, size_t bytes);

/*
 Keys of a block between two that are stored whole. Default: 16.
 */
void leveldb_options_set_block_restart_interval(leveldb_options_t *options, int keys);

/*
 Bytes of a table. Default: 2 MiB, or those of a memtable if that is more.
 */
void leveldb_options_set_max_file_size(leveldb_options_t *options, size_t bytes);

/*
 How blocks are compressed: not, or fast, which is the default.
 */
void leveldb_options_set_compression(leveldb_options_t *options, int compression);

/*
 Sets any option of Esker by name, `name=value` with commas between: those of docs/c-api.md. They
 count after LevelDB's, whichever comes first, and the last of a name counts.

 Not LevelDB's. Errors, with nothing set: no such name; no value for it, or one out of range.
 */
void leveldb_options_set_string(leveldb_options_t *options, const char *settings, char **errptr);

/*
 Makes read options with LevelDB's defaults.
 */
leveldb_readoptions_t *leveldb_readoptions_create(void);

/*
 Frees read options.
 */
void leveldb_readoptions_destroy(leveldb_readoptions_t *options);

/*
 Nothing that can be turned off: checksums are always verified.
 */
void leveldb_readoptions_set_verify_checksums(leveldb_readoptions_t *options, uint8_t on);

/*
 Keep what an iterator reads in the cache. Default: 1. Gets always do.
 */
void leveldb_readoptions_set_fill_cache(leveldb_readoptions_t *options, uint8_t on);

/*
 Read what a snapshot sees; NULL is the present. Once the snapshot is released, reads with these
 options fail.
 */
void leveldb_readoptions_set_snapshot(leveldb_readoptions_t *options, const leveldb_snapshot_t *snapshot);

/*
 Makes write options with LevelDB's defaults.
 */
leveldb_writeoptions_t *leveldb_writeoptions_create(void);

/*
 Frees write options.
 */
void leveldb_writeoptions_destroy(leveldb_writeoptions_t *options);

/*
 Return from a write only when it, and every write before it, is on stable storage. Default: 0.
 */
void leveldb_writeoptions_set_sync(leveldb_writeoptions_t *options, uint8_t on);

/*
 Makes a cache of so many bytes, which each database that is opened with it has for itself.
 */
leveldb_cache_t *leveldb_cache_create_lru(size_t capacity);

/*
 Frees a cache.
 */
void leveldb_cache_destroy(leveldb_cache_t *cache);

/*
 The environment, which is always the system's.
 */
leveldb_env_t *leveldb_create_default_env(void);

/*
 Frees an environment.
 */
void leveldb_env_destroy(leveldb_env_t *env);

/*
 A directory for tests, which is made if it is not there: what the variable `TEST_TMPDIR` says,
 or one of this user's in the system's directory for such. To be freed.
 */
char *leveldb_env_get_test_directory(leveldb_env_t *env);

/*
 Makes an order of keys of functions: `compare` says less than, equal or greater by its sign,
 `name` the name that the database keeps, `destructor` frees the state. NULL without `compare`.

 They are called from any thread, by several at once, must not use the database, and no C++
 exception may leave them.
 */
leveldb_comparator_t *leveldb_comparator_create(void *state,
                                                void (*destructor)(void *state),
                                                int (*compare)(void *state,
                                                               const char *a,
                                                               size_t alen,
                                                               const char *b,
                                                               size_t blen),
                                                const char *(*name)(void *state));

/*
 Frees an order of keys.
 */
void leveldb_comparator_destroy(leveldb_comparator_t *comparator);

/*
 Makes a filter policy of functions: `create_filter` makes the filter of some keys, which come in
 order, with `malloc`; `key_may_match` returns 0 only if the key was not among them; `name` says
 the name that tables keep. NULL without the first two.

 They are called from any thread, by several at once (`create_filter` too), must not use the
 database, and no C++ exception may leave them.
 */
leveldb_filterpolicy_t *leveldb_filterpolicy_create(void *state,
                                                    void (*destructor)(void *state),
                                                    char *(*create_filter)(void *state,
                                                                           const char *const *key_array,
                                                                           const size_t *key_length_array,
                                                                           int num_keys,
                                                                           size_t *filter_length),
                                                    uint8_t (*key_may_match)(void *state,
                                                                             const char *key,
                                                                             size_t length,
                                                                             const char *filter,
                                                                             size_t filter_length),
                                                    const char *(*name)(void *state));

/*
 A Bloom filter of so many bits a key, from 1 to 64: what is beyond counts as the nearest.
 */
leveldb_filterpolicy_t *leveldb_filterpolicy_create_bloom(int bits_per_key);

/*
 Frees a filter policy.
 */
void leveldb_filterpolicy_destroy(leveldb_filterpolicy_t *policy);

/*
 Makes an empty batch.
 */
leveldb_writebatch_t *leveldb_writebatch_create(void);

/*
 Frees a batch.
 */
void leveldb_writebatch_destroy(leveldb_writebatch_t *batch);

/*
 Forgets all writes of a batch.
 */
void leveldb_writebatch_clear(leveldb_writebatch_t *batch);

/*
 Adds setting a key to a batch.
 */
void leveldb_writebatch_put(leveldb_writebatch_t *batch, const char *key, size_t klen, const char *val, size_t vlen);

/*
 Adds removing a key to a batch.
 */
void leveldb_writebatch_delete(leveldb_writebatch_t *batch, const char *key, size_t klen);

/*
 Calls `put` or `deleted` for each write of a batch, in order. They must not change the batch.
 */
void leveldb_writebatch_iterate(const leveldb_writebatch_t *batch,
                                void *state,
                                void (*put)(void *state, const char *k, size_t klen, const char *v, size_t vlen),
                                void (*deleted)(void *state, const char *k, size_t klen));

/*
 Adds all writes of `source` to `destination`.
 */
void leveldb_writebatch_append(leveldb_writebatch_t *destination, const leveldb_writebatch_t *source);

/*
 Opens the database in the directory `name`. NULL after an error.

 Errors, all of them an invalid argument: it is not there, and was not to be made; it is there,
 and was not to be; an option is wrong, or the comparator another; the directory holds a database
 of LevelDB, which is not touched. IO error: it is open already, here or elsewhere; of the disk.
 Corruption: a file is damaged.
 */
leveldb_t *leveldb_open(const leveldb_options_t *options, const char *name, char **errptr);

/*
 Closes a database: what was written is durable then. What is left of its iterators and snapshots
 may still be used, and has to be freed.
 */
void leveldb_close(leveldb_t *db);

/*
 Sets a key.
 */
void leveldb_put(leveldb_t *db,
                 const leveldb_writeoptions_t *options,
                 const char *key,
                 size_t keylen,
                 const char *val,
                 size_t vallen,
                 char **errptr);

/*
 Removes a key, which need not be there.
 */
void leveldb_delete(leveldb_t *db,
                    const leveldb_writeoptions_t *options,
                    const char *key,
                    size_t keylen,
                    char **errptr);

/*
 Writes a batch, all of it or nothing. The batch stays as it is.
 */
void leveldb_write(leveldb_t *db, const leveldb_writeoptions_t *options, leveldb_writebatch_t *batch, char **errptr);

/*
 The value of a key, to be freed, and its length; NULL if the key is not there, and after an
 error.
 */
char *leveldb_get(leveldb_t *db,
                  const leveldb_readoptions_t *options,
                  const char *key,
                  size_t keylen,
                  size_t *vallen,
                  char **errptr);

/*
 A snapshot of a database, to be released.
 */
const leveldb_snapshot_t *leveldb_create_snapshot(leveldb_t *db);

/*
 Releases a snapshot.
 */
void leveldb_release_snapshot(leveldb_t *db, const leveldb_snapshot_t *snapshot);

/*
 The value of a property, to be freed; NULL if there is none of this name.
 */
char *leveldb_property_value(leveldb_t *db, const char *propname);

/*
 About how many bytes of tables the keys of each range take. Start inclusive, limit exclusive.
 */
void leveldb_approximate_sizes(leveldb_t *db,
                               int num_ranges,
                               const char *const *range_start_key,
                               const size_t *range_start_key_len,
                               const char *const *range_limit_key,
                               const size_t *range_limit_key_len,
                               uint64_t *sizes);

/*
 Rewrites the keys from start to limit, both inclusive, into the deepest level in use, and waits
 for it. NULL is open.
 */
void leveldb_compact_range(leveldb_t *db,
                           const char *start_key,
                           size_t start_key_len,
                           const char *limit_key,
                           size_t limit_key_len);

/*
 Removes a database. It is no error if there is none.
 */
void leveldb_destroy_db(const leveldb_options_t *options, const char *name, char **errptr);

/*
 Makes a damaged database one that opens. What cannot be used is put into the directory `lost`.
 */
void leveldb_repair_db(const leveldb_options_t *options, const char *name, char **errptr);

/*
 Frees what a function of this interface has returned.
 */
void leveldb_free(void *ptr);

/*
 The first number of the version of LevelDB whose interface this is.
 */
int leveldb_major_version(void);

/*
 The second number of it.
 */
int leveldb_minor_version(void);

/*
 Makes an iterator, which stands on no key. What goes wrong `leveldb_iter_get_error` tells.
 */
leveldb_iterator_t *leveldb_create_iterator(leveldb_t *db, const leveldb_readoptions_t *options);

/*
 Frees an iterator.
 */
void leveldb_iter_destroy(leveldb_iterator_t *iterator);

/*
 1 if the iterator stands on a key, else 0.
 */
uint8_t leveldb_iter_valid(const leveldb_iterator_t *iterator);

/*
 Moves to the first key.
 */
void leveldb_iter_seek_to_first(leveldb_iterator_t *iterator);

/*
 Moves to the last key.
 */
void leveldb_iter_seek_to_last(leveldb_iterator_t *iterator);

/*
 Moves to the first key at or after the given one.
 */
void leveldb_iter_seek(leveldb_iterator_t *iterator, const char *k, size_t klen);

/*
 Moves to the following key.
 */
void leveldb_iter_next(leveldb_iterator_t *iterator);

/*
 Moves to the preceding key.
 */
void leveldb_iter_prev(leveldb_iterator_t *iterator);

/*
 The key, good until the iterator moves; NULL if it stands on none.
 */
const char *leveldb_iter_key(const leveldb_iterator_t *iterator, size_t *klen);

/*
 The value, good until the iterator moves; NULL if it stands on no key.
 */
const char *leveldb_iter_value(const leveldb_iterator_t *iterator, size_t *vlen);

/*
 Tells what went wrong first since the iterator was made, if something did.
 */
void leveldb_iter_get_error(const leveldb_iterator_t *iterator, char **errptr);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ESKER_LEVELDB_C_H_ */
