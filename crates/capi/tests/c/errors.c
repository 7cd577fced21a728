/* What goes wrong, and how it begins to be told. */

#include "say.h"

/* Turns bytes over in the middle of a file. */
static void damage(const char *path, long from_end) {
  FILE *file = fopen(path, "r+b");
  if (file == NULL) return;
  fseek(file, -from_end, SEEK_END);
  for (int i = 0; i < 8; i++) fputc(0x5a, file);
  fclose(file);
}

int main(void) {
  char *error = NULL;
  leveldb_options_t *options = leveldb_options_create();
  leveldb_readoptions_t *reads = leveldb_readoptions_create();
  leveldb_writeoptions_t *writes = leveldb_writeoptions_create();

  leveldb_t *db = leveldb_open(options, "db", &error);
  printf("%s\n", db == NULL ? "not opened" : "opened");
  say_error("nothing is there", &error, 1);
  leveldb_options_set_create_if_missing(options, 1);
  db = leveldb_open(options, "db", &error);
  say_error("made", &error, 1);
  put(db, writes, "tide", "in at noon");
  leveldb_t *twice = leveldb_open(options, "db", &error);
  printf("%s\n", twice == NULL ? "not opened" : "opened");
  say_error("open twice", &error, 1);
  leveldb_destroy_db(options, "db", &error);
  say_error("destroy while open", &error, 1);
  say_get(db, reads, "tide");
  leveldb_close(db);

  /* An error that is there already is freed and replaced; where nothing fails it stays. */
  error = strdup("an old one");
  db = leveldb_open(options, "db", &error);
  printf("old error: %s\n", error);
  leveldb_close(db);
  leveldb_options_set_error_if_exists(options, 1);
  db = leveldb_open(options, "db", &error);
  say_error("must not exist", &error, 1);
  leveldb_options_set_error_if_exists(options, 0);

  FILE *file = fopen("file", "w");
  fputs("no database\n", file);
  fclose(file);
  db = leveldb_open(options, "file", &error);
  printf("%s\n", db == NULL ? "not opened" : "opened");
  say_error("a file", &error, 0);
  db = leveldb_open(options, "file/db", &error);
  say_error("below a file", &error, 0);
  leveldb_destroy_db(options, "nowhere", &error);
  say_error("destroy nothing", &error, 1);

  leveldb_options_set_create_if_missing(options, 0);
  file = fopen("db/CURRENT", "w");
  fputs("not a manifest", file);
  fclose(file);
  db = leveldb_open(options, "db", &error);
  printf("%s\n", db == NULL ? "not opened" : "opened");
  say_error("damaged CURRENT", &error, 0);
  leveldb_repair_db(options, "db", &error);
  say_error("repair", &error, 1);
  db = leveldb_open(options, "db", &error);
  say_error("repaired", &error, 1);
  say_get(db, reads, "tide");
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  leveldb_close(db);

  /* Both kinds of table end in what leads to their index, or in the index and 48 bytes more. */
  for (int number = 1; number < 100; number++) {
    char path[64];
    snprintf(path, sizeof path, "db/%06d.ldb", number);
    damage(path, 60);
    snprintf(path, sizeof path, "db/%06d.tbl", number);
    damage(path, 60);
  }
  leveldb_readoptions_set_verify_checksums(reads, 1);
  leveldb_options_set_paranoid_checks(options, 1);
  db = leveldb_open(options, "db", &error);
  if (db != NULL) {
    size_t length;
    char *value = leveldb_get(db, reads, "tide", 4, &length, &error);
    printf("%s\n", value == NULL ? "no value" : "a value");
    say_error("get from a damaged table", &error, 0);
    leveldb_iterator_t *it = leveldb_create_iterator(db, reads);
    leveldb_iter_seek_to_first(it);
    printf("valid: %d\n", leveldb_iter_valid(it));
    leveldb_iter_get_error(it, &error);
    say_error("iterate over a damaged table", &error, 0);
    /* What went wrong is told at the end of a walk too, whatever came after it. */
    leveldb_iter_seek(it, "zenith", 6);
    printf("valid: %d\n", leveldb_iter_valid(it));
    leveldb_iter_get_error(it, &error);
    say_error("after another move", &error, 0);
    leveldb_iter_destroy(it);
    leveldb_close(db);
  } else {
    say_error("open of a damaged table", &error, 0);
  }
  leveldb_options_destroy(options);
  leveldb_readoptions_destroy(reads);
  leveldb_writeoptions_destroy(writes);
  return 0;
}
