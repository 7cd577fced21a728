/* A child leaves the stores of its parent alone, whatever it does with the handles that it has inherited. Says nothing if all is
   as it should be. */

#include "check.h"

#include <leveldb/c.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define REFUSED(call)                                                \
  do {                                                               \
    CHECK((call) == ESKER_MISUSE);                                   \
    CHECK(strstr(esker_last_error(), "another process") != NULL);    \
  } while (0)

/* All that a process may have open. */
static struct {
  esker_db *db;
  esker_keyspace *keyspace;
  esker_snapshot *snapshot;
  esker_cursor *cursor;
  esker_unordered *unordered;
  esker_batch *batch;
  esker_keyspace *people, *dropped;
  esker_record *record;
  esker_found *found;
  leveldb_t *old;
  leveldb_iterator_t *it;
  const leveldb_snapshot_t *moment;
} mine;

static leveldb_options_t *options;
static leveldb_readoptions_t *reads;
static leveldb_writeoptions_t *writes;
static int written = 0;

/* Writes some more keys into both stores. */
static void write_on(int count) {
  for (int until = written + count; written < until; written++) {
    char key[16], *error = NULL;
    snprintf(key, sizeof key, "k%06d", written);
    OK(esker_put(mine.keyspace, key, 7, key, 7));
    leveldb_put(mine.old, writes, key, 7, key, 7, &error);
    CHECK(error == NULL);
  }
}

static void open_all(void) {
  char *error = NULL;
  OK(esker_open("store", "memtable_bytes=64KiB", &mine.db));
  OK(esker_default_keyspace(mine.db, &mine.keyspace));
  mine.old = leveldb_open(options, "old", &error);
  CHECK(error == NULL && mine.old != NULL);
}

/* Every key that was written is there, and nothing is damaged. */
static void check_all(void) {
  for (int i = 0; i < written; i++) {
    char key[16], *error = NULL;
    snprintf(key, sizeof key, "k%06d", i);
    esker_slice value;
    OK(esker_get(mine.keyspace, NULL, key, 7, &value));
    CHECK(value.len == 7 && memcmp(value.data, key, 7) == 0);
    esker_free(value.data);
    size_t length;
    char *found = leveldb_get(mine.old, reads, key, 7, &length, &error);
    CHECK(error == NULL && found != NULL && length == 7 && memcmp(found, key, 7) == 0);
    leveldb_free(found);
  }
  bool sound = false;
  OK(esker_verify(mine.db, &sound, NULL));
  CHECK(sound);
}

static int told(char **error) {
  int right = *error != NULL && strstr(*error, "Invalid argument: the database was opened by another process") != NULL;
  leveldb_free(*error);
  *error = NULL;
  return right;
}

/* What a child may try with what is not its own. */
static void use_what_is_inherited(void) {
  esker_slice value;
  bool found;
  REFUSED(esker_put(mine.keyspace, "child", 5, "x", 1));
  REFUSED(esker_delete(mine.keyspace, "k000000", 7));
  REFUSED(esker_get(mine.keyspace, NULL, "k000000", 7, &value));
  REFUSED(esker_write(mine.db, mine.batch, true));
  REFUSED(esker_sync(mine.db));
  REFUSED(esker_apply(mine.db, mine.batch, "child", 5, 1, NULL, 0));
  REFUSED(esker_get_persisted(mine.keyspace, "k000000", 7, &value));
  REFUSED(esker_delete_group(mine.db, "k", 1, NULL));
  REFUSED(esker_export_group(mine.db, "k", 1, "of the child", NULL));
  REFUSED(esker_ingest_group(mine.db, "k", 1, "of the child", NULL));
  REFUSED(esker_flush_group(mine.db, "k", 1, NULL));
  REFUSED(esker_flush_oldest(mine.db));
  esker_group_index *groups;
  size_t count;
  REFUSED(esker_groups(mine.db, &groups, &count));
  REFUSED(esker_group(mine.db, "k", 1, &groups));
  esker_group_tables *tables;
  REFUSED(esker_group_stats(mine.db, &tables, &count));
  esker_snapshot *persisted;
  REFUSED(esker_persisted_snapshot(mine.db, &persisted));
  esker_field year = {.kind = ESKER_INT, .integer = 1923};
  esker_record *record;
  esker_found *found_too;
  REFUSED(esker_put_record(mine.people, "child", 5, mine.record));
  REFUSED(esker_get_record(mine.people, NULL, "p1", 2, &record));
  REFUSED(esker_create_index(mine.people, "name"));
  REFUSED(esker_find(mine.people, NULL, "year", &year, &found_too));
  REFUSED(esker_found_next(mine.found, &found));
  CHECK(esker_found_key(mine.found, NULL) == NULL);
  REFUSED(esker_put(mine.dropped, "child", 5, "x", 1));
  /* A record is memory alone. */
  OK(esker_record_set(mine.record, "child", &year));
  REFUSED(esker_cursor_next(mine.cursor));
  REFUSED(esker_unordered_next(mine.unordered, &found));
  CHECK(!esker_cursor_valid(mine.cursor));
  char *error = NULL;
  size_t length;
  leveldb_put(mine.old, writes, "child", 5, "x", 1, &error);
  CHECK(told(&error));
  CHECK(leveldb_get(mine.old, reads, "k000000", 7, &length, &error) == NULL);
  CHECK(told(&error));
  leveldb_iter_next(mine.it);
  CHECK(!leveldb_iter_valid(mine.it));
  leveldb_iter_get_error(mine.it, &error);
  CHECK(told(&error));
  leveldb_compact_range(mine.old, NULL, 0, NULL, 0);
}

static void close_all(int inherited) {
  leveldb_iter_destroy(mine.it);
  leveldb_release_snapshot(mine.old, mine.moment);
  leveldb_close(mine.old);
  if (inherited) REFUSED(esker_close(mine.db));
  else OK(esker_close(mine.db));
  OK(esker_cursor_close(mine.cursor));
  OK(esker_unordered_close(mine.unordered));
  OK(esker_snapshot_close(mine.snapshot));
  OK(esker_batch_close(mine.batch));
  OK(esker_record_close(mine.record));
  OK(esker_found_close(mine.found));
  OK(esker_keyspace_close(mine.people));
  OK(esker_keyspace_close(mine.dropped));
  OK(esker_keyspace_close(mine.keyspace));
}

/* A child has stores of its own, and cannot have its parent's while that lives. */
static void open_what_is_free(void) {
  esker_db *db;
  esker_keyspace *keyspace;
  CHECK(esker_open("store", NULL, &db) == ESKER_BUSY);
  OK(esker_open("of the child", NULL, &db));
  OK(esker_default_keyspace(db, &keyspace));
  OK(esker_put(keyspace, "a", 1, "b", 1));
  OK(esker_keyspace_close(keyspace));
  OK(esker_close(db));
  OK(esker_destroy("of the child"));
}

static void child(int does);

static void fork_and_wait(int does) {
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) child(does);
  int status = 0;
  CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* So many generations, each with a store of its own and more handles than are kept closed. What a child does in all of them comes
   first. */
static void descend(int generations, int does) {
  if (generations == 0) return;
  char path[32];
  snprintf(path, sizeof path, "of generation %d", generations);
  esker_db *db;
  esker_keyspace *keyspace;
  OK(esker_open(path, NULL, &db));
  OK(esker_default_keyspace(db, &keyspace));
  OK(esker_put(keyspace, path, strlen(path), "x", 1));
  for (int i = 0; i < 1100; i++) {
    esker_batch *batch;
    OK(esker_batch_create(&batch));
    OK(esker_batch_close(batch));
  }
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    REFUSED(esker_put(keyspace, "child", 5, "x", 1));
    descend(generations - 1, does);
    OK(esker_keyspace_close(keyspace));
    REFUSED(esker_close(db));
    child(does);
  }
  int status = 0;
  CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  OK(esker_put(keyspace, "parent", 6, "x", 1));
  OK(esker_keyspace_close(keyspace));
  OK(esker_close(db));
  OK(esker_destroy(path));
}

enum { USES = 1, CLOSES = 2, OPENS = 4, DESCENDS = 8 };

static void child(int does) {
  alarm(100);
  if (does & USES) use_what_is_inherited();
  if (does & OPENS) open_what_is_free();
  if (does & DESCENDS) descend(12, USES | CLOSES);
  if (does & CLOSES) close_all(1);
  exit(failed);
}

static atomic_int busy;

static void *keep_busy(void *unused) {
  while (atomic_load(&busy)) write_on(10);
  return unused;
}

int main(void) {
  options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_options_set_write_buffer_size(options, 1 << 16);
  reads = leveldb_readoptions_create();
  writes = leveldb_writeoptions_create();
  open_all();
  write_on(2000);
  OK(esker_snapshot_create(mine.db, &mine.snapshot));
  OK(esker_scan(mine.keyspace, NULL, &mine.cursor));
  OK(esker_cursor_seek_to_first(mine.cursor));
  OK(esker_scan_unordered(mine.keyspace, NULL, 1 << 16, &mine.unordered));
  OK(esker_batch_create(&mine.batch));
  OK(esker_batch_put(mine.batch, mine.keyspace, "child", 5, "x", 1));
  OK(esker_create_keyspace(mine.db, "people", NULL, &mine.people));
  OK(esker_create_index(mine.people, "year"));
  OK(esker_wait_index(mine.people, "year"));
  esker_field year = {.kind = ESKER_INT, .integer = 1923};
  OK(esker_record_create(&mine.record));
  OK(esker_record_set(mine.record, "year", &year));
  OK(esker_put_record(mine.people, "p1", 2, mine.record));
  OK(esker_find(mine.people, NULL, "year", &year, &mine.found));
  bool more;
  OK(esker_found_next(mine.found, &more));
  CHECK(more);
  /* The handle alone keeps what is dropped. */
  OK(esker_create_keyspace(mine.db, "dropped", NULL, &mine.dropped));
  OK(esker_put(mine.dropped, "a", 1, "b", 1));
  OK(esker_drop_keyspace(mine.db, "dropped"));
  mine.it = leveldb_create_iterator(mine.old, reads);
  leveldb_iter_seek_to_first(mine.it);
  mine.moment = leveldb_create_snapshot(mine.old);

  int ways[] = {0, USES, CLOSES, OPENS, USES | OPENS | CLOSES, DESCENDS};
  for (int i = 0; i < 6; i++) {
    fork_and_wait(ways[i]);
    write_on(100);
  }
  /* Whatever another thread is in the middle of. */
  pthread_t thread;
  atomic_store(&busy, 1);
  pthread_create(&thread, NULL, keep_busy, NULL);
  for (int i = 0; i < 40; i++) fork_and_wait(i % 10 == 0 ? DESCENDS : USES | CLOSES);
  atomic_store(&busy, 0);
  pthread_join(thread, NULL);
  check_all();

  /* A child that lives on keeps no store from its parent. */
  int ends[2];
  CHECK(pipe(ends) == 0);
  pid_t pid = fork();
  if (pid == 0) {
    char byte;
    close(ends[1]);
    if (read(ends[0], &byte, 1) != 0) failed = 1;
    child(CLOSES);
  }
  close_all(0);
  open_all();
  CHECK(mine.db != NULL && mine.old != NULL);
  if (failed) return failed;
  check_all();
  write_on(500);
  close(ends[0]);
  close(ends[1]);
  int status = 0;
  CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  check_all();
  OK(esker_keyspace_close(mine.keyspace));
  OK(esker_close(mine.db));
  leveldb_close(mine.old);
  open_all();
  check_all();
  OK(esker_keyspace_close(mine.keyspace));
  OK(esker_close(mine.db));
  leveldb_close(mine.old);
  leveldb_options_destroy(options);
  leveldb_readoptions_destroy(reads);
  leveldb_writeoptions_destroy(writes);
  return failed;
}
