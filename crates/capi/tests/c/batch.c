/* Batches: made, walked, put together, cleared, written twice. */

#include "say.h"

static void on_put(void *state, const char *key, size_t key_length, const char *value, size_t value_length) {
  printf("%d put ", (*(int *)state)++);
  say_bytes(key, key_length);
  printf(" = ");
  say_bytes(value, value_length);
  putchar('\n');
}

static void on_delete(void *state, const char *key, size_t key_length) {
  printf("%d delete ", (*(int *)state)++);
  say_bytes(key, key_length);
  putchar('\n');
}

static void say_batch(const leveldb_writebatch_t *batch) {
  int number = 0;
  printf("batch:\n");
  leveldb_writebatch_iterate(batch, &number, on_put, on_delete);
}

int main(void) {
  char *error = NULL;
  leveldb_options_t *options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_readoptions_t *reads = leveldb_readoptions_create();
  leveldb_writeoptions_t *writes = leveldb_writeoptions_create();
  leveldb_t *db = leveldb_open(options, "db", &error);
  must("open", error);

  leveldb_writebatch_t *batch = leveldb_writebatch_create();
  say_batch(batch);
  leveldb_write(db, writes, batch, &error);
  must("write", error);
  leveldb_writebatch_delete(batch, "anchor", 6);
  leveldb_writebatch_put(batch, "rope", 4, "30 m", 4);
  leveldb_writebatch_clear(batch);
  leveldb_writebatch_put(batch, "", 0, "", 0);
  leveldb_writebatch_put(batch, "mast", 4, "oak\0tar", 7);
  leveldb_writebatch_delete(batch, "never aboard", 12);
  leveldb_writebatch_put(batch, "sail", 4, "torn", 4);
  leveldb_writebatch_delete(batch, "sail", 4);
  say_batch(batch);
  leveldb_writebatch_t *more = leveldb_writebatch_create();
  leveldb_writebatch_put(more, "rope", 4, "10 m", 4);
  leveldb_writebatch_put(more, "rope", 4, "20 m", 4);
  leveldb_writebatch_append(batch, more);
  leveldb_writebatch_put(more, "later", 5, "not in the other", 16);
  say_batch(batch);
  leveldb_writeoptions_set_sync(writes, 1);
  leveldb_write(db, writes, batch, &error);
  must("write", error);
  say_all(db, reads);
  say_batch(batch);
  put(db, writes, "sail", "mended");
  put(db, writes, "rope", "cut");
  leveldb_write(db, writes, batch, &error);
  must("write again", error);
  say_all(db, reads);
  leveldb_writebatch_clear(batch);
  say_batch(batch);
  for (int i = 0; i < 3000; i++) {
    char key[16], value[64];
    snprintf(key, sizeof key, "k%05d", i % 1000);
    snprintf(value, sizeof value, "value %d", i);
    if (i % 7 == 0) leveldb_writebatch_delete(batch, key, strlen(key));
    else leveldb_writebatch_put(batch, key, strlen(key), value, strlen(value));
  }
  leveldb_write(db, writes, batch, &error);
  must("write many", error);
  say_get(db, reads, "k00000");
  say_get(db, reads, "k00500");
  say_get(db, reads, "k00999");
  leveldb_writebatch_destroy(batch);
  leveldb_writebatch_destroy(more);
  leveldb_close(db);
  leveldb_options_destroy(options);
  leveldb_readoptions_destroy(reads);
  leveldb_writeoptions_destroy(writes);
  return 0;
}
