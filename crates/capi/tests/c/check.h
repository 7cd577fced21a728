/* How the programs that speak esker.h check what they see: they say nothing if all is as it should be. */

#ifndef CHECK_H_
#define CHECK_H_

#include <esker.h>
#include <stdio.h>
#include <string.h>

/* What the program ends with. */
static int failed = 0;

#define CHECK(condition)                                                                 \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      printf("line %d: %s; last error: %s\n", __LINE__, #condition, esker_last_error()); \
      failed = 1;                                                                        \
    }                                                                                    \
  } while (0)
#define OK(call) CHECK((call) == ESKER_OK)
#define FAILS(code, words, call)                        \
  do {                                                  \
    CHECK((call) == (code));                            \
    CHECK(strstr(esker_last_error(), (words)) != NULL); \
  } while (0)

#endif
