// Records itself until it is killed: main DIRECTORY. Prints a line once it records.
#include <cstdio>

#include "tests/trace_agent/subject/subject.h"
#include "tracing/agent/session.h"

int main(int, char** argv) {
  using namespace kintsugi;
  const auto image = tracing::Image::of_process();
  if (!image) return 1;
  const auto session = tracing::Session::open(
      **image, {.directory = argv[1], .start = "all", .mode = tracing::Mode::kCircular});
  if (!session) return 2;
  std::puts("records");
  std::fflush(stdout);
  while (true)
    subject::outer();
}
