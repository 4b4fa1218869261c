// The entry points of libFuzzer, for the one subject that the executable is linked with.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include <fmt/format.h>
#include <google/protobuf/stubs/logging.h>

#include "tests/fuzz/subject.h"

using kintsugi::fuzz::Subject;

// libFuzzer's own mutation, for use by a custom one.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

const Subject& subject() {
  return kintsugi::fuzz::subjects().front();
}

}  // namespace

/// $KINTSUGI_FUZZ_CORPUS, when it is set, is a folder that gets the subject's seeds before libFuzzer reads it.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  google::protobuf::SetLogHandler(nullptr);
  const char* corpus = std::getenv("KINTSUGI_FUZZ_CORPUS");
  if (corpus == nullptr) return 0;
  size_t number = 0;
  for (const std::string& seed : subject().seeds())
    std::ofstream(fmt::format("{}/seed-{}", corpus, number++), std::ios::binary) << seed;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    subject().check({reinterpret_cast<const char*>(data), size});
  } catch (const std::exception& broken) {
    std::fprintf(stderr, "%s: %s\n", subject().name.c_str(), broken.what());
    std::abort();
  }
  return 0;
}

/// Every other input is changed in its subject's own terms, if it has any.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  if (subject().mutate == nullptr || seed % 2 == 0) return LLVMFuzzerMutate(data, size, max_size);
  std::mt19937_64 random(seed);
  std::string input(reinterpret_cast<const char*>(data), size);
  subject().mutate(input, random);
  if (input.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, input.data(), input.size());
  return input.size();
}
