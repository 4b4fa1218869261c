// How many small files a transfer moves at a time.
#include "client/cli/file_window.h"

#include <gtest/gtest.h>

namespace kintsugi::cli {
namespace {

using namespace std::chrono_literals;

/// Ends a round of files, each of which took so long.
void round(FileWindow& window, Duration each) {
  for (size_t left = FileWindow::kFilesARound * window.size(); left > 0; --left)
    window.record(each);
}

TEST(FileWindow, GrowsWhileMoreFilesTakeNoLonger) {
  FileWindow window;
  EXPECT_EQ(window.size(), FileWindow::kFirst);
  for (int i = 0; i < 20; ++i)
    round(window, 5ms);
  EXPECT_EQ(window.size(), FileWindow::kMost);
}

TEST(FileWindow, StaysWhereItWasWhenMoreFilesOnlyTakeLonger) {
  FileWindow window;
  size_t large_rounds = 0, rounds = 200;
  for (size_t i = 0; i < rounds; ++i) {
    EXPECT_LE(window.size(), 2 * FileWindow::kFirst);
    large_rounds += window.size() > FileWindow::kFirst;
    round(window, window.size() * 1ms);  // one after the other
  }
  EXPECT_GT(large_rounds, 1u) << "it tries again";
  EXPECT_LT(large_rounds, rounds / 3) << "but not all the time";
}

TEST(FileWindow, GoesBackWhenServersBecomeBusyAndOnWhenTheyAreFree) {
  FileWindow window;
  for (int i = 0; i < 20; ++i)
    round(window, 5ms);
  ASSERT_EQ(window.size(), FileWindow::kMost);
  round(window, 50ms);
  EXPECT_LT(window.size(), FileWindow::kMost);
  for (int i = 0; i < 40; ++i)
    round(window, 5ms);
  EXPECT_EQ(window.size(), FileWindow::kMost);
}

}  // namespace
}  // namespace kintsugi::cli
