#include "common/base/last_words.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>

#include <gtest/gtest.h>
#include <unistd.h>

#include "common/base/assert.h"

namespace kintsugi {
namespace {

using ::testing::KilledBySignal;

TEST(LastWordsDeathTest, SayWhichSignalEndedTheProcessAndWhoSentIt) {
  const std::string path = ::testing::TempDir() + "kintsugi-last-words-" + std::to_string(::getpid());
  std::ofstream(path) << "the log\n";
  const auto die = [&] {
    install_last_words("tester");
    set_last_words_file(path);
    ::kill(::getpid(), SIGUSR1);
  };
  EXPECT_EXIT(die(), KilledBySignal(SIGUSR1), "tester .* ends: signal 10 .SIGUSR1. sent by process");
  std::ifstream file(path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT_EQ(text.find("the log\n"), 0u);
  EXPECT_NE(text.find("SIGUSR1"), std::string::npos) << text;
  std::filesystem::remove(path);
}

TEST(LastWordsDeathTest, SayWhatNobodyCaughtAndWhatWasAsserted) {
  const std::function<void()> unlucky = [] { throw std::runtime_error("out of luck"); };
  const auto throw_through = [&]() noexcept {
    install_last_words("tester");
    unlucky();
  };
  EXPECT_EXIT(throw_through(), KilledBySignal(SIGABRT), "tester .* exception: out of luck");
  const auto assert_wrongly = [] {
    install_last_words("tester");
    KINTSUGI_ASSERT(1 > 2);
  };
  EXPECT_EXIT(assert_wrongly(), KilledBySignal(SIGABRT), "assertion failed: 1 > 2");
}

TEST(LastWordsDeathTest, AClosedPipeIsAnErrorOfTheWriteOnly) {
  const auto write_to_nobody = [] {
    install_last_words("tester");
    int ends[2];
    if (::pipe(ends) != 0) ::_exit(1);
    ::close(ends[0]);
    ::_exit(::write(ends[1], "x", 1) < 0 && errno == EPIPE ? 0 : 2);
  };
  EXPECT_EXIT(write_to_nobody(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace kintsugi
