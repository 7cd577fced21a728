/* What the programs have in common: they say what they see, and the lines of two libraries are compared. */

#ifndef SAY_H_
#define SAY_H_

#include <leveldb/c.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Says an error up to the end of its kind, or all of it where both libraries say the same, and frees it. */
static inline void say_error(const char *what, char **error, int whole) {
  if (*error == NULL) {
    printf("%s: ok\n", what);
    return;
  }
  const char *colon = strchr(*error, ':');
  int length = whole || colon == NULL ? (int)strlen(*error) : (int)(colon - *error) + 1;
  printf("%s: %.*s\n", what, length, *error);
  leveldb_free(*error);
  *error = NULL;
}

/* Ends the program where something failed that must not. */
static inline void must(const char *what, char *error) {
  if (error != NULL) {
    printf("%s failed: %s\n", what, error);
    exit(1);
  }
}

/* Says bytes in quotes, those that cannot be read as hexadecimal numbers. */
static inline void say_bytes(const char *bytes, size_t length) {
  putchar('"');
  for (size_t i = 0; i < length; i++) {
    unsigned char byte = (unsigned char)bytes[i];
    if (byte >= 0x20 && byte < 0x7f && byte != '"') {
      putchar(byte);
    } else {
      printf("\\x%02x", byte);
    }
  }
  putchar('"');
}

static inline void say_get(leveldb_t *db, leveldb_readoptions_t *options, const char *key) {
  char *error = NULL;
  size_t length = 99;
  char *value = leveldb_get(db, options, key, strlen(key), &length, &error);
  must("get", error);
  printf("get %s: ", key);
  if (value == NULL) {
    printf("absent, length %zu\n", length);
    return;
  }
  say_bytes(value, length);
  putchar('\n');
  leveldb_free(value);
}

static inline void put(leveldb_t *db, leveldb_writeoptions_t *options, const char *key, const char *value) {
  char *error = NULL;
  leveldb_put(db, options, key, strlen(key), value, strlen(value), &error);
  must("put", error);
}

static inline void say_pair(const leveldb_iterator_t *it) {
  if (!leveldb_iter_valid(it)) {
    printf("nothing\n");
    return;
  }
  size_t length;
  const char *bytes = leveldb_iter_key(it, &length);
  say_bytes(bytes, length);
  printf(" = ");
  bytes = leveldb_iter_value(it, &length);
  say_bytes(bytes, length);
  putchar('\n');
}

/* Says all pairs, forwards and then backwards. */
static inline void say_all(leveldb_t *db, leveldb_readoptions_t *options) {
  char *error = NULL;
  leveldb_iterator_t *it = leveldb_create_iterator(db, options);
  printf("all:\n");
  for (leveldb_iter_seek_to_first(it); leveldb_iter_valid(it); leveldb_iter_next(it)) say_pair(it);
  printf("backwards:\n");
  for (leveldb_iter_seek_to_last(it); leveldb_iter_valid(it); leveldb_iter_prev(it)) say_pair(it);
  leveldb_iter_get_error(it, &error);
  must("iterate", error);
  leveldb_iter_destroy(it);
}

/* A number that looks random, of a state that moves on. */
static inline uint64_t draw(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  uint64_t x = *state ^ (*state >> 33);
  return (x * 0xff51afd7ed558ccdu) ^ ((x * 0xff51afd7ed558ccdu) >> 33);
}

/* The checksum FNV-1a, going on from a sum. */
static inline uint64_t sum(uint64_t so_far, const char *bytes, size_t length) {
  for (size_t i = 0; i < length; i++) so_far = (so_far ^ (unsigned char)bytes[i]) * 0x100000001b3u;
  return so_far;
}

#endif
