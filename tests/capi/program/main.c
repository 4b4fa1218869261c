// Uses the whole C interface against the cluster that the environment names: `capi_program CHAPTER...`.
#include <string.h>

#include "check.h"

kintsugi_t *connected(const struct kintsugi_options *options) {
  kintsugi_t *connection = NULL;
  EXPECT(kintsugi_connect(NULL, NULL, options, &connection), 0);
  EXPECT_TRUE(connection != NULL);
  return connection;
}

void fill(char *bytes, size_t size, unsigned seed) {
  uint32_t state = seed * 2654435761u + 1;
  for (size_t i = 0; i < size; ++i) {
    state = state * 1664525u + 1013904223u;
    bytes[i] = (char)(state >> 24);
  }
}

void run(const char *variable) {
  const char *command = getenv(variable);
  EXPECT_TRUE(command != NULL);
  EXPECT(system(command), 0);
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*run)(void);
  } chapters[] = {{"arguments", test_arguments}, {"files", test_files},     {"names", test_names},
                  {"users", test_users},         {"threads", test_threads}, {"restart", test_restart},
                  {"snapshots", test_snapshots}};
  for (int i = 1; i < argc; ++i) {
    size_t which = 0;
    while (which < sizeof chapters / sizeof *chapters && strcmp(chapters[which].name, argv[i]) != 0)
      ++which;
    if (which == sizeof chapters / sizeof *chapters) {
      fprintf(stderr, "no chapter %s\n", argv[i]);
      return 2;
    }
    chapters[which].run();
    printf("%s: ok\n", argv[i]);
  }
  return 0;
}
