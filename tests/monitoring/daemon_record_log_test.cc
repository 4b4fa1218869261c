// What a monitor keeps survives its end, whatever that is, and never takes more room than it was given.
#include <gtest/gtest.h>

#include "monitoring/daemon/record_log.h"
#include "tests/expect_ok.h"
#include "tests/simulation/runtime/sim_node.h"

namespace kintsugi::monitoring {
namespace {

class RecordLogTest : public ::testing::Test {
 protected:
  using Records = std::vector<std::string>;

  /// Opens the log of a new life and returns what it holds.
  Records open(RecordLogOptions options = {.directory = "/log"}) {
    log.reset();
    Records records;
    log = std::make_unique<RecordLog>(node.runtime(), options);
    KINTSUGI_EXPECT_OK(simulation.run(log->open([&](std::string_view r) { records.emplace_back(r); })));
    return records;
  }
  void append(const std::string& record) { KINTSUGI_EXPECT_OK(simulation.run(log->append(record))); }

  simulation::Simulation simulation{1};
  simulation::SimNode node{simulation, "10.0.0.1"};
  std::unique_ptr<RecordLog> log;
};

TEST_F(RecordLogTest, WhatWasAppendedIsThereAfterPowerWasLost) {
  EXPECT_TRUE(open().empty());
  Records written;
  for (int i = 0; i < 20; ++i) {
    written.push_back(std::string(static_cast<size_t>(i) * 299, static_cast<char>('a' + i)));
    append(written.back());
  }
  log.reset();
  node.crash();
  node.restart();
  EXPECT_EQ(open(), written);
  append("and more");
  written.push_back("and more");
  EXPECT_EQ(open(), written) << "a new life goes on behind the old one";
}

TEST_F(RecordLogTest, TheOldestAreGivenUpWhenThereAreTooMany) {
  const RecordLogOptions options{.directory = "/log", .most_bytes = 256 << 10, .segment_bytes = 32 << 10};
  open(options);
  for (int i = 0; i < 500; ++i) {
    append(std::to_string(i));
    ASSERT_LE(log->bytes(), options.most_bytes);
  }
  const Records records = open(options);
  ASSERT_FALSE(records.empty());
  EXPECT_EQ(records.back(), "499");
  EXPECT_GE(records.size(), 50u);
  for (size_t i = 0; i < records.size(); ++i)
    EXPECT_EQ(records[i], std::to_string(500 - records.size() + i)) << "nothing is missing in between";
}

TEST_F(RecordLogTest, ARecordThatIsTooLongIsRefusedAndChangesNothing) {
  open();
  append("one");
  EXPECT_EQ(simulation.run(log->append(std::string(RecordLog::kMostRecord + 1, 'x'))).code(),
            Code::kInvalidArgument);
  append("two");
  EXPECT_EQ(open(), (Records{"one", "two"}));
}

TEST_F(RecordLogTest, TwoMonitorsDoNotShareADirectory) {
  open();
  RecordLog other(node.runtime(), {.directory = "/log"});
  EXPECT_EQ(simulation.run(other.open()).code(), Code::kConflict);
}

TEST_F(RecordLogTest, WhatIsWholeBeforeDamageIsReadAndGarbageIsNothing) {
  open();
  append("one");
  append(std::string(5000, 'x'));
  append("three");
  const auto file =
      simulation.run(node.runtime().disk.open("/log/0000000000000001.log", runtime::OpenMode::kRead));
  ASSERT_TRUE(file);
  alignas(4096) static std::array<std::byte, 16384> memory;
  const size_t size = *simulation.run((*file)->read(0, memory));
  const std::string bytes(reinterpret_cast<const char*>(memory.data()), size);
  EXPECT_EQ(RecordLog::parse(bytes).size(), 3u);
  for (size_t cut = 0; cut < bytes.size(); cut += 61) {
    const auto records = RecordLog::parse(std::string_view(bytes).substr(0, cut));
    EXPECT_LE(records.size(), cut < 4096 + 5016 ? 1u : cut < 12288 + 21 ? 2u : 3u) << "cut at " << cut;
  }
  std::string damaged = bytes;
  damaged[4096 + 100] ^= 1;
  EXPECT_EQ(RecordLog::parse(damaged).size(), 1u);
  EXPECT_TRUE(RecordLog::parse(std::string(100'000, '\x7f')).empty());
}

}  // namespace
}  // namespace kintsugi::monitoring
