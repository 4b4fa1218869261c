#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "common/base/crc32c.h"
#include "monitoring/metrics/trace/codec.h"
#include "monitoring/metrics/trace/csv.h"
#include "monitoring/metrics/trace/files.h"
#include "monitoring/metrics/trace/preparation.h"
#include "monitoring/metrics/trace/windows.h"
#include "tests/metrics/trace_rig.h"

namespace kintsugi::metric_trace {
namespace {

namespace fs = std::filesystem;

Trace small_trace() {
  Trace trace;
  trace.header.sources = {{"chunkserver-1", "build a", 0x1234567890abcdef},
                          {"metaserver", "build \"b\", new"}};
  trace.header.metrics = {{"num_fds", Kind::kGauge, 0, 256},
                          {"calls{call=\"read, all\"}", Kind::kCounter, 0, kMissing},
                          {"rss", Kind::kGauge, 1, kMissing}};
  trace.header.regions = {{"chunkserver.commit", 0}, {"metaserver.create", 1}};
  trace.header.period = std::chrono::milliseconds(100);
  trace.header.host = "lab";
  trace.header.workload = "ramp, 5 to 95 %";
  trace.rows = {{.t_ns = 100, .values = {57, 0.1, 1e-300}, .activity = {{0, 2, 7}, {1, 1.5}}, .restarts = {}},
                {.t_ns = 200, .values = {kMissing, 3e18, -0.25}, .activity = {}, .restarts = {{1, "c-d"}}}};
  return trace;
}

void expect_same(const Trace& a, const Trace& b) {
  EXPECT_EQ(encode(a.header), encode(b.header));
  ASSERT_EQ(a.rows.size(), b.rows.size());
  for (size_t i = 0; i < a.rows.size(); ++i)
    EXPECT_EQ(encode(a.rows[i]), encode(b.rows[i])) << i;
}

std::string bytes_of(const Trace& trace) {
  std::string bytes = encode(trace.header);
  for (const Row& row : trace.rows)
    bytes += encode(row);
  return bytes;
}

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "trace_test.XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path_); }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

TEST(TraceFile, ComesBackAsItWasWritten) {
  const auto back = decode(bytes_of(small_trace()));
  ASSERT_TRUE(back) << back.error();
  expect_same(*back, small_trace());
}

/// Bytes of a file as older monitors wrote it.
class OldFile {
 public:
  explicit OldFile(char version) : bytes("KSGTRACE") { bytes += {version, 0, 0, 0}; }
  OldFile& number(auto value) {
    payload_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  OldFile& text(const std::string& text) {
    number(static_cast<uint16_t>(text.size()));
    payload_ += text;
    return *this;
  }
  /// What was given since the last one is a record.
  OldFile& record() {
    const std::string payload = std::exchange(payload_, {});
    number(static_cast<uint32_t>(payload.size()));
    number(crc32c(std::as_bytes(std::span(payload.data(), payload.size()))));
    bytes += std::exchange(payload_, {}) + payload;
    return *this;
  }
  std::string bytes;

 private:
  std::string payload_;
};

TEST(TraceFile, OfTheFirstVersionComesBackWithoutProcesses) {
  OldFile file(1);
  file.number(int64_t{kSecond}).text("lab").text("").number(uint32_t{1}).text("metaserver").text("b1");
  file.number(uint32_t{1}).text("rss").number(uint8_t{1}).number(uint32_t{0}).number(kMissing);
  file.number(uint32_t{0}).record();
  file.number(int64_t{7}).number(57.0).number(uint32_t{0}).number(uint32_t{1});
  file.number(uint32_t{0}).text("b2").record();
  const auto trace = decode(file.bytes);
  ASSERT_TRUE(trace) << trace.error();
  EXPECT_EQ(trace->header.sources[0], (Source{.name = "metaserver", .build_id = "b1"}));
  ASSERT_EQ(trace->rows.size(), 1u);
  EXPECT_EQ(trace->rows[0].values, std::vector<double>{57});
  EXPECT_EQ(trace->rows[0].restarts, (std::vector<Restart>{{.source = 0, .build_id = "b2"}}));
}

TEST(TraceFile, OfTheSecondVersionDoesNotSayWhatEnded) {
  OldFile file(2);
  file.number(int64_t{kSecond}).text("lab").text("").number(uint32_t{1}).text("metaserver").text("b1");
  file.number(uint64_t{17}).number(uint32_t{1}).text("rss").number(uint8_t{1}).number(uint32_t{0});
  file.number(kMissing).number(uint32_t{1}).text("metaserver.commit").number(uint32_t{0}).record();
  file.number(int64_t{7}).number(57.0).number(uint32_t{1}).number(uint32_t{0}).number(2.0F);
  file.number(uint32_t{0}).record();
  const auto trace = decode(file.bytes);
  ASSERT_TRUE(trace) << trace.error();
  EXPECT_EQ(trace->header.sources[0].process, 17u);
  ASSERT_EQ(trace->rows.size(), 1u);
  EXPECT_EQ(trace->rows[0].activity, (std::vector<RegionActivity>{{.region = 0, .open = 2, .ended = 0}}));
}

TEST(TraceFile, ATableComesBackAsItWasWritten) {
  const auto back = from_csv(to_csv(small_trace()));
  ASSERT_TRUE(back) << back.error();
  expect_same(*back, small_trace());
}

TEST(TraceFile, ATableThatIsDamagedNamesTheLine) {
  std::string text = to_csv(small_trace());
  const auto expect_line = [](const std::string& text, std::string_view part) {
    const auto back = from_csv(text);
    ASSERT_FALSE(back);
    EXPECT_EQ(back.error().code(), Code::kCorrupt);
    EXPECT_NE(back.error().message().find(part), std::string::npos) << back.error();
  };
  expect_line(text + "garbage\n", "line 15");
  expect_line("a,b\n1,2\n", "line 1");
  expect_line("", "line 1");
  expect_line(text.substr(0, text.find("# metric")), "no line of titles");
}

TEST(TraceFile, EveryCutIsAnErrorThatSaysWhere) {
  const std::string bytes = bytes_of(small_trace());
  const size_t header = encode(small_trace().header).size(), row = encode(small_trace().rows[0]).size();
  for (size_t length = 0; length < bytes.size(); ++length) {
    const auto cut = decode(std::string_view(bytes).substr(0, length));
    const bool between_rows = length == header || length == header + row;
    ASSERT_EQ(static_cast<bool>(cut), between_rows) << length;
    if (cut) continue;
    EXPECT_EQ(cut.error().code(), Code::kCorrupt);
    if (length > header + row) EXPECT_NE(cut.error().message().find("cut off in row 2"), std::string::npos);
  }
  const auto kept = decode(std::string_view(bytes).substr(0, bytes.size() - 1), Torn::kEndsTheTrace);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->rows.size(), 1u);
}

TEST(TraceFile, EveryChangedByteIsAnError) {
  const std::string bytes = bytes_of(small_trace());
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 0x41);
    EXPECT_FALSE(decode(changed)) << at;
  }
}

TEST(TraceFile, RandomBytesAreNeverATrace) {
  Draws draws(7);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = "KSGTRACE";
    bytes += std::string("\1\0\0\0", 4);
    for (uint64_t n = draws.below(200); n > 0; --n)
      bytes += static_cast<char>(draws.below(256));
    EXPECT_FALSE(decode(bytes));
    EXPECT_FALSE(from_csv("# kintsugi-trace,1\n" + bytes));
  }
}

TEST(TraceFile, AFileThatIsNotThereIsNamed) {
  const auto none = read_trace("/nowhere/x.trace");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), Code::kNotFound);
  EXPECT_NE(none.error().message().find("/nowhere/x.trace"), std::string::npos);
}

TEST(TraceKeeper, GivesUpTheOldestBeyondItsBytes) {
  const Folder folder;
  const Trace trace = small_trace();
  const uint64_t limit = 24 * 500;
  auto keeper = TraceFiles::open({.directory = folder / "t", .most_bytes = limit}, trace.header);
  ASSERT_TRUE(keeper) << keeper.error();
  Row row = trace.rows[0];
  for (int i = 0; i < 1000; ++i) {
    row.t_ns = i * 100'000'000LL;
    ASSERT_TRUE((*keeper)->append(row).ok());
    ASSERT_LE((*keeper)->bytes(), limit + 500);
  }
  const auto back = read_trace(folder / "t");
  ASSERT_TRUE(back) << back.error();
  EXPECT_EQ(back->rows.back().t_ns, row.t_ns);
  EXPECT_GT(back->rows.size(), 50u);
  for (size_t i = 1; i < back->rows.size(); ++i)
    EXPECT_EQ(back->rows[i].t_ns - back->rows[i - 1].t_ns, 100'000'000) << "a hole in the middle";
}

TEST(TraceKeeper, GivesUpTheOldestBeyondItsTimeAndGoesOnAfterARestart) {
  const Folder folder;
  const Trace trace = small_trace();
  const TraceFilesOptions options{.directory = folder / "t", .most_time = std::chrono::seconds(24)};
  Row row = trace.rows[0];
  for (int life = 0; life < 3; ++life) {
    auto keeper = TraceFiles::open(options, trace.header);
    ASSERT_TRUE(keeper) << keeper.error();
    for (int i = 0; i < 200; ++i) {
      row.t_ns = (life * 200 + i) * 100'000'000LL;
      ASSERT_TRUE((*keeper)->append(row).ok());
    }
  }
  const auto back = read_trace(folder / "t");
  ASSERT_TRUE(back) << back.error();
  EXPECT_EQ(back->rows.back().t_ns, row.t_ns);
  EXPECT_GT(back->rows.front().t_ns, row.t_ns - 26 * kSecond);
  EXPECT_LT(back->rows.front().t_ns, row.t_ns - 22 * kSecond);
}

TEST(TraceKeeper, AFileThatBeginsAfterARestartNamesTheProcessThatIsThere) {
  const Folder folder;
  const Trace trace = small_trace();
  auto keeper =
      TraceFiles::open({.directory = folder / "t", .most_time = std::chrono::seconds(24)}, trace.header);
  ASSERT_TRUE(keeper) << keeper.error();
  Row row = trace.rows[0];
  row.restarts = {{.source = 1, .build_id = "new", .process = 8}};
  ASSERT_TRUE((*keeper)->append(row).ok());
  row.t_ns += 2 * kSecond;
  row.restarts = {};
  ASSERT_TRUE((*keeper)->append(row).ok());
  const auto header = latest_header(folder / "t");
  ASSERT_TRUE(header) << header.error();
  EXPECT_EQ(header->sources[1], (Source{.name = "metaserver", .build_id = "new", .process = 8}));
  EXPECT_TRUE(read_trace(folder / "t")->rows[1].restarts.empty());
}

TEST(TraceKeeper, AClockThatJumpsAheadDoesNotTakeTheRecordingWithIt) {
  const Folder folder;
  const Trace trace = small_trace();
  TraceFilesOptions options{.directory = folder / "kept", .most_time = std::chrono::hours(24)};
  auto keeper = TraceFiles::open(options, trace.header);
  ASSERT_TRUE(keeper) << keeper.error();
  constexpr int64_t kHour = int64_t{3600} * 1'000'000'000;
  Row row = trace.rows[0];
  for (int hour = 0; hour < 20; ++hour) {
    row.t_ns = hour * kHour;
    ASSERT_TRUE((*keeper)->append(row).ok());
  }
  row.t_ns = 1000 * kHour;
  ASSERT_TRUE((*keeper)->append(row).ok());
  const auto kept = read_trace(options.directory);
  ASSERT_TRUE(kept) << kept.error();
  EXPECT_GT(kept->rows.size(), 15U);
}

TEST(TraceKeeper, ARowCutByACrashIsTheEndOfItsFileAndNotMore) {
  const Folder folder;
  const Trace trace = small_trace();
  {
    auto keeper = TraceFiles::open({.directory = folder / "t"}, trace.header);
    ASSERT_TRUE((*keeper)->append(trace.rows[0]).ok());
    ASSERT_TRUE((*keeper)->append(trace.rows[1]).ok());
  }
  const std::string first = folder / "t/0000000000000001.trace";
  fs::resize_file(first, fs::file_size(first) - 3);
  auto keeper = TraceFiles::open({.directory = folder / "t"}, trace.header);
  ASSERT_TRUE(keeper);
  ASSERT_TRUE((*keeper)->append(trace.rows[1]).ok());
  const auto back = read_trace(folder / "t");
  ASSERT_TRUE(back) << back.error();
  EXPECT_EQ(back->rows.size(), 2u);
  EXPECT_FALSE(read_trace(first)) << "as a file of its own it is damaged";
}

TEST(TraceKeeper, FilesOfANewerMonitorStayAsLongAsOthers) {
  const Folder folder;
  fs::create_directory(folder / "t");
  const std::string old = folder / "t/0000000000000001.trace", newer = folder / "t/0000000000000002.trace";
  for (const std::string& path : {newer, old})
    std::ofstream(path, std::ios::binary) << std::string("KSGTRACE\x63\0\0\0what it says", 24);
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(48));
  const Trace trace = small_trace();
  auto keeper =
      TraceFiles::open({.directory = folder / "t", .most_time = std::chrono::hours(24)}, trace.header);
  ASSERT_TRUE(keeper) << keeper.error();
  Row row = trace.rows[0];
  row.t_ns = std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
  for (int i = 0; i < 5; ++i, row.t_ns += 3600 * kSecond)
    ASSERT_TRUE((*keeper)->append(row).ok());
  EXPECT_TRUE(fs::exists(newer)) << "it was written today";
  EXPECT_FALSE(fs::exists(old));
}

TEST(TraceKeeper, ADiskThatCannotBeWrittenIsAnErrorOfTheRowOnly) {
  const Folder folder;
  const Trace trace = small_trace();
  auto keeper = TraceFiles::open({.directory = folder / "t"}, trace.header);
  ASSERT_TRUE(keeper);
  fs::remove_all(folder / "t");
  EXPECT_FALSE((*keeper)->append(trace.rows[0]).ok());
  fs::create_directory(folder / "t");
  EXPECT_TRUE((*keeper)->append(trace.rows[0]).ok());
  EXPECT_EQ(read_trace(folder / "t")->rows.size(), 1u);
}

TEST(TraceJoined, ALimitThatChangedIsTheLatest) {
  Trace before = small_trace(), after = small_trace();
  after.header.metrics[0].limit = 65'536;
  after.header.metrics[2].limit = kMissing;
  const Trace both = joined({before, after});
  EXPECT_EQ(both.header.metrics[0].limit, 65'536);
  EXPECT_EQ(joined({after, before}).header.metrics[0].limit, 256);
}

TEST(TraceJoined, AMetricThatCameLaterIsMissingBefore) {
  Trace a = small_trace(), b = small_trace();
  b.header.metrics.insert(b.header.metrics.begin(), Metric{"new", Kind::kGauge, 1, kMissing});
  b.header.sources[0].build_id = "build z";
  for (Row& row : b.rows)
    row.values.insert(row.values.begin(), 5);
  const Trace both = joined({a, b});
  ASSERT_EQ(both.header.metrics.size(), 4u);
  EXPECT_EQ(both.header.metrics[3].name, "new");
  EXPECT_TRUE(std::isnan(both.rows[0].values[3]));
  EXPECT_EQ(both.rows[2].values[3], 5);
  EXPECT_EQ(both.rows[2].values[0], 57);
  const bool restarted = std::ranges::any_of(
      both.rows[2].restarts, [](const Restart& one) { return one.source == 0 && one.build_id == "build z"; });
  EXPECT_TRUE(restarted) << "another build is another process";
}

// ---- series

Trace counters(const std::vector<double>& values) {
  Trace trace =
      gauges({"n", "g"}, values.size(), [&](size_t i) { return std::vector<double>{values[i], 1.0 * i}; });
  trace.header.metrics[0].kind = Kind::kCounter;
  trace.header.period = std::chrono::milliseconds(500);
  for (size_t i = 0; i < values.size(); ++i)
    trace.rows[i].t_ns = static_cast<int64_t>(i) * 500'000'000;
  return trace;
}

TEST(Series, ACounterBecomesItsRateASecond) {
  const Series series = series_of(counters({0, 5, 15, 15}), 0);
  ASSERT_EQ(series.rows(), 3u);
  EXPECT_EQ(series.values(0, 0), 10);
  EXPECT_EQ(series.values(1, 0), 20);
  EXPECT_EQ(series.values(2, 0), 0);
  EXPECT_EQ(series.values(2, 1), 3) << "a gauge is as it is";
}

TEST(Series, ACounterThatDecreasesBeginsASegment) {
  const Series series = series_of(counters({0, 5, 15, 1, 2, 4}), 0);
  ASSERT_EQ(series.segments.size(), 2u);
  EXPECT_EQ(series.segments[0].rows(), 2u);
  EXPECT_EQ(series.segments[1].rows(), 2u);
  EXPECT_EQ(series.values(2, 0), 2) << "no rate across the restart";
}

TEST(Series, ARestartOfAnotherProcessIsNone) {
  Trace trace = counters({0, 1, 2, 3});
  trace.header.sources.push_back({"other", ""});
  trace.rows[2].restarts = {{.source = 1, .build_id = "b2"}};
  EXPECT_EQ(series_of(trace, 0).segments.size(), 1u);
  trace.rows[2].restarts = {{.source = 0, .build_id = "b2"}};
  const Series series = series_of(trace, 0);
  ASSERT_EQ(series.segments.size(), 2u);
  EXPECT_EQ(series.segments[0].build_id, "b1");
  EXPECT_EQ(series.segments[1].build_id, "b2");
}

TEST(Series, MissingRowsAreCarriedForwardOnlyWhenTheyAreFew) {
  Trace trace = gauges({"g"}, 30, [](size_t i) { return std::vector<double>{1.0 * i}; });
  std::erase_if(trace.rows, [](const Row& row) {
    const int64_t s = row.t_ns / kSecond;
    return (s >= 5 && s <= 7) || (s >= 15 && s <= 18);
  });
  const Series series = series_of(trace, 0);
  ASSERT_EQ(series.rows(), 29u);
  EXPECT_EQ(series.segments.size(), 1u);
  for (const Eigen::Index row : {4, 5, 6})
    EXPECT_EQ(series.values(row, 0), 4);
  for (const Eigen::Index row : {14, 15, 16, 17})
    EXPECT_TRUE(std::isnan(series.values(row, 0)));
  EXPECT_EQ(series.values(18, 0), 19);
}

TEST(Series, AClockStepAndALongGapBeginASegment) {
  Trace trace = gauges({"g"}, 300, [](size_t i) { return std::vector<double>{1.0 * i}; });
  for (size_t i = 100; i < 300; ++i)
    trace.rows[i].t_ns -= 50 * kSecond;
  for (size_t i = 200; i < 300; ++i)
    trace.rows[i].t_ns += 3600 * kSecond;
  const Series series = series_of(trace, 0);
  EXPECT_EQ(series.segments.size(), 3u);
  EXPECT_EQ(series.rows(), 297u);
}

// ---- preparation and windows

TEST(Preparation, DropsConstantMetricsAndMergesThoseThatSayTheSame) {
  Draws draws(3);
  const Trace trace = gauges({"rss", "still", "almost", "rss_anon", "own", "absent"}, 1000, [&](size_t i) {
    const double rss = 100 + draws.normal();
    return std::vector<double>{
        rss, 7, i == 500 ? 9.0 : 8.0, 2 * rss + 0.01 * draws.normal(), draws.normal(), kMissing};
  });
  const Preparation prepared = prepare(series_of(trace, 0));
  ASSERT_EQ(prepared.live.size(), 2u);
  EXPECT_EQ(prepared.live[0].column, 0u);
  EXPECT_EQ(prepared.live[0].aliases, std::vector<size_t>{3});
  EXPECT_EQ(prepared.live[1].column, 4u);
  ASSERT_EQ(prepared.watched.size(), 2u);
  EXPECT_EQ(prepared.watched[1].column, 2u);
  EXPECT_EQ(prepared.watched[1].high, 9);
  EXPECT_EQ(prepared.unknown, std::vector<size_t>{5});
}

TEST(Preparation, NothingAtAllIsNothing) {
  EXPECT_TRUE(prepare(series_of(gauges({"a"}, 0, {}), 0)).live.empty());
  const Trace three = gauges({"a", "b"}, 3, [](size_t i) { return std::vector<double>{1.0 * i, 2.0}; });
  EXPECT_EQ(prepare(series_of(three, 0)).live.size(), 1u);
}

TEST(Windows, CorrelationsAreThoseOfTheWorkedExample) {
  Eigen::MatrixXd window(5, 4);
  window << 1, 2, 5, 1, 2, 4, 4, 3, 3, 6, 3, 2, 4, 8, 2, 5, 5, 10, 1, 4;
  const std::vector<double> expected = {1, -1, 0.8, -1, 0.8, -0.8};
  const PairVector pairs = correlations(window);
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(pairs[i], expected[i], 1e-6);
  const PairVector scaled = scaled_covariances(window.leftCols(2), std::vector<double>{1, 2});
  EXPECT_NEAR(scaled[0], 2.5, 1e-6) << "with deviations from training it is no coefficient any more";
}

TEST(Windows, AMetricThatStandsStillHasZeroAndAMissingOneIsVoid) {
  Eigen::MatrixXd window(4, 3);
  window << 1, 0.1, 1, 2, 0.1, kMissing, 3, 0.1, 2, 4, 0.1, 3;
  const PairVector pairs = correlations(window);
  EXPECT_EQ(pairs[0], 0);
  EXPECT_TRUE(std::isnan(pairs[1]));
  EXPECT_TRUE(std::isnan(pairs[2]));
}

}  // namespace
}  // namespace kintsugi::metric_trace
