/* Keys are written and read to the very end: by the destructor of a thread's own variable, and after main has returned. Says
   nothing if all is as it should be. */

#include "check.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { VALUE_BYTES = 2000 };

static esker_db *db;
static esker_keyspace *keyspace;

/* A value that is worth compressing. */
static void value_of(int n, char *value) {
  for (int i = 0; i < VALUE_BYTES; i++) value[i] = (char)('a' + (i / 40 + n) % 26);
}

static void write_some(const char *by, int count) {
  for (int n = 0; n < count; n++) {
    char key[32], value[VALUE_BYTES];
    int length = snprintf(key, sizeof key, "%s %04d", by, n);
    value_of(n, value);
    OK(esker_put(keyspace, key, (size_t)length, value, VALUE_BYTES));
    if (n % 10 == 9) OK(esker_delete(keyspace, key, (size_t)length));
  }
}

static void read_some(const char *by, int count) {
  for (int n = 0; n < count; n++) {
    char key[32], value[VALUE_BYTES];
    int length = snprintf(key, sizeof key, "%s %04d", by, n);
    value_of(n, value);
    esker_slice found;
    OK(esker_get(keyspace, NULL, key, (size_t)length, &found));
    if (n % 10 == 9) CHECK(found.data == NULL);
    else CHECK(found.len == VALUE_BYTES && memcmp(found.data, value, VALUE_BYTES) == 0);
    esker_free(found.data);
  }
}

/* Comes after the destructors of what the library itself keeps for the thread. */
static void at_end_of_thread(void *unused) {
  (void)unused;
  write_some("end of thread", 50);
  OK(esker_flush(db));
  read_some("end of thread", 50);
  read_some("main", 200);
}

static void *thread(void *key) {
  pthread_setspecific(*(pthread_key_t *)key, db);
  write_some("thread", 50);
  read_some("main", 200);
  return NULL;
}

static void at_end_of_process(void) {
  write_some("end of process", 200);
  OK(esker_flush(db));
  OK(esker_compact(keyspace, NULL, 0, NULL, 0));
  const char *writers[] = {"main", "thread", "end of thread", "end of process"};
  int counts[] = {200, 50, 50, 200};
  for (int i = 0; i < 4; i++) read_some(writers[i], counts[i]);
  OK(esker_keyspace_close(keyspace));
  OK(esker_close(db));
  OK(esker_open("last", NULL, &db));
  OK(esker_default_keyspace(db, &keyspace));
  for (int i = 0; i < 4; i++) read_some(writers[i], counts[i]);
  OK(esker_keyspace_close(keyspace));
  OK(esker_close(db));
  fflush(stdout);
  if (failed) _exit(failed);
}

int main(void) {
  atexit(at_end_of_process);
  /* Blocks in tables are compressed by one way, values apart by another; both are kept by each thread. */
  OK(esker_open("last", "compression=zstd:3,value_log_bytes_min=1KiB,memtable_bytes=64KiB", &db));
  OK(esker_default_keyspace(db, &keyspace));
  write_some("main", 200);
  OK(esker_flush(db));
  read_some("main", 200);
  pthread_key_t key;
  pthread_key_create(&key, at_end_of_thread);
  pthread_t other;
  pthread_create(&other, NULL, thread, &key);
  pthread_join(other, NULL);
  return failed;
}
