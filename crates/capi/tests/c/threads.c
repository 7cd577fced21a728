/* Two threads that write and read one database, and a third that walks it. */

#include "say.h"
#include <pthread.h>

enum { KEYS = 20000 };

struct job {
  leveldb_t *db;
  int number;
  uint64_t wrong;
};

static void *work(void *argument) {
  struct job *job = argument;
  leveldb_writeoptions_t *writes = leveldb_writeoptions_create();
  leveldb_readoptions_t *reads = leveldb_readoptions_create();
  for (int i = 0; i < KEYS; i++) {
    char key[32], *error = NULL;
    snprintf(key, sizeof key, "%06d-%d", i, job->number);
    put(job->db, writes, key, key);
    snprintf(key, sizeof key, "%06d-%d", i / 2, job->number);
    size_t length = 0;
    char *value = leveldb_get(job->db, reads, key, strlen(key), &length, &error);
    must("get", error);
    if (value == NULL || length != strlen(key) || memcmp(value, key, length) != 0) job->wrong++;
    leveldb_free(value);
  }
  leveldb_writeoptions_destroy(writes);
  leveldb_readoptions_destroy(reads);
  return NULL;
}

/* Each key of one thread must be followed by what that thread has written after it. */
static void *watch(void *argument) {
  struct job *job = argument;
  leveldb_readoptions_t *reads = leveldb_readoptions_create();
  for (int round = 0; round < 20; round++) {
    const leveldb_snapshot_t *snapshot = leveldb_create_snapshot(job->db);
    leveldb_readoptions_set_snapshot(reads, snapshot);
    leveldb_iterator_t *it = leveldb_create_iterator(job->db, reads);
    int last[2] = {-1, -1};
    for (leveldb_iter_seek_to_first(it); leveldb_iter_valid(it); leveldb_iter_next(it)) {
      size_t length;
      const char *key = leveldb_iter_key(it, &length);
      int who = key[7] - '0', number = atoi(key);
      if (number != last[who] + 1) job->wrong++;
      last[who] = number;
    }
    leveldb_iter_destroy(it);
    leveldb_release_snapshot(job->db, snapshot);
  }
  leveldb_readoptions_destroy(reads);
  return NULL;
}

int main(void) {
  char *error = NULL;
  leveldb_options_t *options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_options_set_write_buffer_size(options, 1 << 18);
  leveldb_t *db = leveldb_open(options, "db", &error);
  must("open", error);
  struct job jobs[3] = {{db, 0, 0}, {db, 1, 0}, {db, 2, 0}};
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, i < 2 ? work : watch, &jobs[i]);
  for (int i = 0; i < 3; i++) {
    pthread_join(threads[i], NULL);
    printf("thread %d: %llu wrong\n", i, (unsigned long long)jobs[i].wrong);
  }
  leveldb_readoptions_t *reads = leveldb_readoptions_create();
  leveldb_iterator_t *it = leveldb_create_iterator(db, reads);
  uint64_t count = 0;
  for (leveldb_iter_seek_to_first(it); leveldb_iter_valid(it); leveldb_iter_next(it)) count++;
  printf("%llu keys\n", (unsigned long long)count);
  leveldb_iter_destroy(it);
  leveldb_readoptions_destroy(reads);
  leveldb_close(db);
  leveldb_options_destroy(options);
  return 0;
}
