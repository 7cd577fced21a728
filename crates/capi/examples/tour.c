/* A tour of esker.h: keys, a batch, a snapshot, a scan.
   cc tour.c $(pkg-config --cflags --libs esker) && ./a.out */

#include <esker.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program with what went wrong. */
static void must(esker_code code) {
  if (code != ESKER_OK) {
    fprintf(stderr, "error %d: %s\n", (int)code, esker_last_error());
    exit(1);
  }
}

int main(void) {
  esker_db *db;
  must(esker_open("tour-store", "preset=edge,compaction=tiered", &db));
  esker_keyspace *stock, *prices;
  must(esker_default_keyspace(db, &stock));
  must(esker_create_keyspace(db, "prices", NULL, &prices));

  /* One key. This survives the death of the process; esker_sync makes it survive a power cut. */
  must(esker_put(stock, "bread", 5, "2", 1));

  /* Several at once, all or nothing, across keyspaces, on stable storage when it returns. */
  esker_batch *batch;
  must(esker_batch_create(&batch));
  must(esker_batch_put(batch, stock, "milk", 4, "1", 1));
  must(esker_batch_put(batch, prices, "milk", 4, "0.89", 4));
  must(esker_write(db, batch, true));
  must(esker_batch_close(batch));

  /* A snapshot does not see what comes after it. */
  esker_snapshot *before;
  must(esker_snapshot_create(db, &before));
  must(esker_put(stock, "milk", 4, "0", 1));
  esker_slice value;
  must(esker_get(stock, before, "milk", 4, &value));
  printf("milk, before: %.*s\n", (int)value.len, value.data);
  esker_free(value.data);
  must(esker_snapshot_close(before));

  /* A key that is not there is no error. */
  must(esker_get(stock, NULL, "apples", 6, &value));
  printf("apples: %s\n", value.data == NULL ? "none" : "some");

  /* Keys come in order. */
  esker_cursor *cursor;
  must(esker_scan(stock, NULL, &cursor));
  must(esker_cursor_seek_to_first(cursor));
  while (esker_cursor_valid(cursor)) {
    size_t key_len, value_len;
    const char *key = esker_cursor_key(cursor, &key_len);
    const char *held = esker_cursor_value(cursor, &value_len);
    printf("%.*s = %.*s\n", (int)key_len, key, (int)value_len, held);
    must(esker_cursor_next(cursor));
  }
  must(esker_cursor_close(cursor));

  must(esker_keyspace_close(stock));
  must(esker_keyspace_close(prices));
  must(esker_close(db));
  must(esker_destroy("tour-store"));
  return 0;
}
