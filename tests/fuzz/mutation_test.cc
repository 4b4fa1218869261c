// The fuzzers' properties, tried in every run of the tests: each parser meets mutations of valid inputs.
#include <csignal>
#include <cstdlib>

#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include "common/base/last_words.h"
#include "tests/fuzz/mutate.h"

namespace kintsugi::fuzz {
namespace {

constexpr size_t kMutations = 3000;

/// The first seed of a run: $KINTSUGI_TEST_SEED, or another one each time.
uint64_t first_seed() {
  const char* given = std::getenv("KINTSUGI_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
}

// The input that is tried now, as text that a signal handler can write.
char now_trying[256];

/// An assertion or a crash of the parser ends the test: then at least the seed must be known.
void say_what_was_tried(int signal) {
  write_last_words(now_trying);
  std::raise(signal);
}

class SayWhatWasTried {
 public:
  SayWhatWasTried() {
    struct sigaction action{};
    action.sa_handler = say_what_was_tried;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    for (size_t i = 0; i < kSignals.size(); ++i)
      ::sigaction(kSignals[i], &action, &before_[i]);
  }
  ~SayWhatWasTried() {
    for (size_t i = 0; i < kSignals.size(); ++i)
      ::sigaction(kSignals[i], &before_[i], nullptr);
  }

 private:
  static constexpr std::array kSignals = {SIGABRT, SIGSEGV, SIGFPE, SIGBUS};
  std::array<struct sigaction, kSignals.size()> before_{};
};

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes)
    text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

class Parsers : public ::testing::TestWithParam<Subject> {
 protected:
  // Messages that do not parse are what we are here for.
  google::protobuf::LogSilencer silence_;
};

TEST_P(Parsers, KeepTheirPromisesForValidInputs) {
  const std::vector<std::string> seeds = GetParam().seeds();
  ASSERT_FALSE(seeds.empty());
  for (const std::string& seed : seeds)
    EXPECT_NO_THROW(GetParam().check(seed)) << "of input " << hex(seed);
}

TEST_P(Parsers, KeepTheirPromisesForMutationsOfValidInputs) {
  const SayWhatWasTried crashes;
  const Subject& subject = GetParam();
  const std::vector<std::string> seeds = subject.seeds();
  const uint64_t first = first_seed();
  for (uint64_t seed = first; seed < first + kMutations; ++seed) {
    const std::string replay =
        fmt::format("replay with KINTSUGI_TEST_SEED={} and --gtest_filter=*/{}", seed, subject.name);
    now_trying[replay.copy(now_trying, sizeof now_trying - 1)] = 0;
    const std::string input = mutation(subject, seeds, seed);
    try {
      subject.check(input);
    } catch (const std::exception& broken) {
      FAIL() << broken.what() << "\n" << replay << "\ninput " << hex(input);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Parsers, ::testing::ValuesIn(subjects()),
                         [](const auto& parameter) { return parameter.param.name; });

}  // namespace
}  // namespace kintsugi::fuzz
