/* Records of fields, and finding them by an index.
   cc records.c $(pkg-config --cflags --libs esker) && ./a.out */

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

static void add(esker_keyspace *people, const char *id, const char *name, int64_t born) {
  esker_record *record;
  must(esker_record_create(&record));
  esker_field text = {.kind = ESKER_TEXT, .data = name, .len = strlen(name)};
  esker_field year = {.kind = ESKER_INT, .integer = born};
  must(esker_record_set(record, "name", &text));
  must(esker_record_set(record, "born", &year));
  must(esker_put_record(people, id, strlen(id), record));
  must(esker_record_close(record));
}

int main(void) {
  esker_db *db;
  esker_keyspace *people;
  must(esker_open("records-store", NULL, &db));
  must(esker_default_keyspace(db, &people));
  add(people, "p1", "Edgar Codd", 1923);
  add(people, "p2", "Grace Hopper", 1906);
  add(people, "p3", "Jim Gray", 1944);

  /* The index is built in the background; from here on every write keeps it. */
  must(esker_create_index(people, "born"));
  must(esker_wait_index(people, "born"));
  add(people, "p4", "Barbara Liskov", 1939);

  /* Born from 1920 on, in the order of the years. */
  esker_field from = {.kind = ESKER_INT, .integer = 1920};
  esker_found *found;
  must(esker_find_range(people, NULL, "born", &from, true, NULL, false, &found));
  for (;;) {
    bool more;
    must(esker_found_next(found, &more));
    if (!more) break;
    size_t key_len;
    const char *key = esker_found_key(found, &key_len);
    esker_field year, name;
    must(esker_found_value(found, &year));
    esker_record *record;
    bool has_name;
    must(esker_get_record(people, NULL, key, key_len, &record));
    must(esker_record_get(record, "name", &name, &has_name));
    printf("%lld %.*s: %.*s\n", (long long)year.integer, (int)key_len, key, (int)name.len, name.data);
    must(esker_record_close(record));
  }
  must(esker_found_close(found));
  must(esker_keyspace_close(people));
  must(esker_close(db));
  must(esker_destroy("records-store"));
  return 0;
}
