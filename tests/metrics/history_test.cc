// The history of metrics: files read one by one, few points of a long time, parts of a trace.
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <unistd.h>

#include "monitoring/metrics/trace/digest.h"
#include "monitoring/metrics/trace/files.h"
#include "monitoring/metrics/trace/selection.h"
#include "tests/metrics/trace_rig.h"

namespace kintsugi::metric_trace {
namespace {

namespace fs = std::filesystem;

class History : public testing::Test {
 protected:
  History() {
    std::string name = (fs::temp_directory_path() / "history_test.XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~History() override { fs::remove_all(path_); }

  std::string path_;
};

Trace counter_and_gauge(const std::vector<double>& counter, const std::vector<double>& gauge) {
  Trace trace = gauges({"bytes_total", "rss"}, counter.size(),
                       [&](size_t i) { return std::vector<double>{counter[i], gauge[i]}; });
  trace.header.metrics[0].kind = Kind::kCounter;
  return trace;
}

DigestRequest request(std::vector<std::string> metrics, int64_t step_s = 10) {
  return {.source = "chunkserver-1",
          .metrics = std::move(metrics),
          .since_ns = 0,
          .until_ns = 1000 * kSecond,
          .step_ns = step_s * kSecond};
}

TEST_F(History, KeepsWhatAProcessHadBeforeAMetricCameToIt) {
  Trace trace = gauges({"a"}, 1, [](size_t) { return std::vector<double>{1}; });
  auto keeper = TraceFiles::open({.directory = path_}, trace.header);
  ASSERT_TRUE(keeper) << keeper.error();
  ASSERT_TRUE((*keeper)->append(trace.rows[0]).ok());
  Header wider = trace.header;
  wider.metrics.push_back({.name = "b", .kind = Kind::kGauge, .source = 0});
  ASSERT_TRUE((*keeper)->change(wider).ok());
  EXPECT_FALSE((*keeper)->append(trace.rows[0]).ok()) << "a row of the old form";
  Row row = trace.rows[0];
  row.t_ns = kSecond;
  row.values = {2, 3};
  ASSERT_TRUE((*keeper)->append(row).ok());
  const auto back = read_trace(path_);
  ASSERT_TRUE(back) << back.error();
  ASSERT_EQ(back->rows.size(), 2u);
  EXPECT_TRUE(std::isnan(back->rows[0].values[1]));
  EXPECT_THAT(back->rows[1].values, testing::ElementsAre(2, 3));
  EXPECT_FALSE((*keeper)->change(Header()).ok()) << "a header without metrics";
  EXPECT_EQ(latest_header(path_)->metrics.size(), 2u);
}

TEST_F(History, IsReadFileByFileFromTheOneInWhichTheTimeLies) {
  const Trace trace =
      gauges({"a"}, 240, [](size_t i) { return std::vector<double>{1.0 * static_cast<double>(i)}; });
  auto keeper = TraceFiles::open({.directory = path_, .most_time = std::chrono::seconds(240)}, trace.header);
  ASSERT_TRUE(keeper) << keeper.error();
  for (const Row& row : trace.rows)
    ASSERT_TRUE((*keeper)->append(row).ok());
  size_t parts = 0, rows = 0;
  double first = -1;
  const auto count = [&](const Trace& part) {
    if (parts++ == 0) first = part.rows.front().values[0];
    rows += part.rows.size();
  };
  ASSERT_TRUE(for_each_part(path_, 205 * kSecond, count).ok());
  EXPECT_EQ(first, 200) << "files of ten rows each: the ones before hold nothing of that time";
  EXPECT_EQ(rows, 40u);
  EXPECT_EQ(parts, 4u);
  parts = rows = 0;
  ASSERT_TRUE(for_each_part(path_, INT64_MIN, count).ok());
  EXPECT_EQ(rows, 240u);
  // A damaged file costs its own rows.
  fs::resize_file(path_ + "/0000000000000002.trace", 5);
  parts = rows = 0;
  ASSERT_TRUE(for_each_part(path_, INT64_MIN, count).ok());
  EXPECT_EQ(rows, 230u);
  EXPECT_EQ(for_each_part(path_ + "/none", 0, count).code(), Code::kNotFound);
}

TEST_F(History, IsReadNoFurtherOnceNobodyWaitsForIt) {
  const Trace trace = gauges({"a"}, 240, [](size_t) { return std::vector<double>{1}; });
  auto keeper = TraceFiles::open({.directory = path_, .most_time = std::chrono::seconds(240)}, trace.header);
  ASSERT_TRUE(keeper) << keeper.error();
  for (const Row& row : trace.rows)
    ASSERT_TRUE((*keeper)->append(row).ok());
  std::stop_source stopping;
  size_t parts = 0;
  const auto use = [&](const Trace&) {
    if (++parts == 2) stopping.request_stop();
  };
  EXPECT_EQ(for_each_part(path_, INT64_MIN, use, stopping.get_token()).code(), Code::kCancelled);
  EXPECT_EQ(parts, 2u);
}

TEST(Digest, TellsLeastMeanAndMostOfEachStep) {
  Digest digest(request({"rss"}));
  std::vector<double> values(25, 5);
  values[3] = 1;
  values[12] = 9;
  digest.add(counter_and_gauge(std::vector<double>(25, 0), values));
  ASSERT_EQ(digest.series().size(), 1u);
  const auto& bins = digest.series()[0].bins;
  ASSERT_EQ(bins.size(), 3u);
  EXPECT_EQ(bins.at(0).least, 1);
  EXPECT_EQ(bins.at(0).most, 5);
  EXPECT_NEAR(bins.at(0).mean(), 4.6, 1e-12);
  EXPECT_EQ(bins.at(1).most, 9);
  EXPECT_EQ(bins.at(2).rows, 5u);
}

TEST(Digest, GivesACounterAsItsIncreaseASecondAndNothingAcrossARestart) {
  Digest digest(request({"bytes_total"}, 1));
  Trace trace = counter_and_gauge({0, 10, 30, 5, 6, 100, 108}, std::vector<double>(7, 0));
  trace.rows[5].restarts = {{.source = 0, .build_id = "b2"}};
  digest.add(trace);
  const auto& bins = digest.series()[0].bins;
  EXPECT_EQ(bins.at(1).mean(), 10);
  EXPECT_EQ(bins.at(2).mean(), 20);
  EXPECT_FALSE(bins.contains(3)) << "it decreased";
  EXPECT_EQ(bins.at(4).mean(), 1);
  EXPECT_FALSE(bins.contains(5)) << "94 bytes of two processes are no rate";
  EXPECT_EQ(bins.at(6).mean(), 8);
  ASSERT_EQ(digest.restarts().size(), 1u);
  EXPECT_EQ(digest.restarts()[0].second, 5 * kSecond);
}

TEST(Digest, GoesOnFromOnePartToTheNextAndLeavesMissingValuesOut) {
  Digest digest(request({"bytes_total", "rss"}, 1));
  Trace first = counter_and_gauge({0, 10}, {1, kMissing}),
        second = counter_and_gauge({20, kMissing, 60}, {1, 1, 1});
  for (size_t i = 0; i < second.rows.size(); ++i)
    second.rows[i].t_ns = static_cast<int64_t>(i + 2) * kSecond;
  digest.add(first);
  digest.add(second);
  const auto& bytes = digest.series()[0].bins;
  EXPECT_EQ(bytes.at(2).mean(), 10) << "over the border between two files";
  EXPECT_FALSE(bytes.contains(3));
  EXPECT_EQ(bytes.at(4).mean(), 20) << "over a missing row";
  EXPECT_FALSE(digest.series()[1].bins.contains(1));
}

TEST(Digest, SumsASourceWithAnotherInEachRowAndCountsRatesApart) {
  DigestRequest asked = request({"bytes_total", "rss"}, 2);
  asked.source.clear();
  asked.sums = true;
  Trace trace;
  trace.header.sources = {{"a", "b1"}, {"b", "b1"}};
  for (uint32_t source = 0; source < 2; ++source) {
    trace.header.metrics.push_back({"bytes_total", Kind::kCounter, source});
    trace.header.metrics.push_back({"rss", Kind::kGauge, source});
  }
  // The second source grows by 100 a second, and is away in the last row.
  trace.rows = {{.t_ns = 0, .values = {0, 1, 500, 10}, .activity = {}, .restarts = {}},
                {.t_ns = kSecond, .values = {7, 2, 600, 20}, .activity = {}, .restarts = {}},
                {.t_ns = 2 * kSecond, .values = {14, 3, kMissing, kMissing}, .activity = {}, .restarts = {}}};
  Digest digest(asked);
  digest.add(trace);
  ASSERT_EQ(digest.series().size(), 2u) << "one for each metric";
  EXPECT_EQ(digest.series()[0].source, "");
  EXPECT_EQ(digest.series()[0].bins.at(0).mean(), 107);
  EXPECT_EQ(digest.series()[0].bins.at(1).mean(), 7);
  EXPECT_EQ(digest.series()[1].bins.at(0).least, 11);
  EXPECT_EQ(digest.series()[1].bins.at(0).most, 22);
  EXPECT_EQ(digest.series()[1].bins.at(0).rows, 2u);
}

TEST(Digest, ALongGapIsNoRateAndOtherTimesAndSourcesDoNotCount) {
  Digest digest(request({"bytes_total"}, 1));
  Trace trace = counter_and_gauge({0, 10, 20, 30}, std::vector<double>(4, 0));
  trace.rows[2].t_ns = 500 * kSecond;
  trace.rows[3].t_ns = 5000 * kSecond;
  digest.add(trace);
  EXPECT_EQ(digest.series()[0].bins.size(), 1u);
  trace.header.sources[0].name = "other";
  Digest of_another(request({"bytes_total"}, 1));
  of_another.add(trace);
  EXPECT_TRUE(of_another.series().empty());
  DigestRequest all = request({"bytes_total"}, 1);
  all.source.clear();
  Digest of_all(all);
  of_all.add(trace);
  ASSERT_EQ(of_all.series().size(), 1u);
  EXPECT_EQ(of_all.series()[0].source, "other");
}

TEST(Digest, OpenRegionsAreAGauge) {
  Trace trace = counter_and_gauge({0, 0, 0}, {0, 0, kMissing});
  trace.header.regions = {{.name = "disk.read", .source = 0}};
  trace.rows[1].activity = {{.region = 0, .open = 3}};
  Digest digest(request({open_metric("disk.read")}, 1));
  digest.add(trace);
  ASSERT_EQ(digest.series().size(), 1u);
  EXPECT_EQ(digest.series()[0].bins.at(0).mean(), 0);
  EXPECT_EQ(digest.series()[0].bins.at(1).mean(), 3);
  EXPECT_FALSE(digest.series()[0].bins.contains(2)) << "the process did not answer";
}

TEST(Selection, TakesSourcesMetricsAndTimes) {
  Trace trace =
      gauges({"a", "b"}, 3, [](size_t i) { return std::vector<double>{1.0 * static_cast<double>(i), 7}; });
  trace.header.sources.push_back({"metaserver", "m"});
  trace.header.metrics[1].source = 1;
  trace.header.regions = {{.name = "r", .source = 1}};
  trace.rows[2].activity = {{.region = 0, .open = 2}};
  trace.rows[2].restarts = {{.source = 1, .build_id = "m2"}};
  const Trace one = select(trace, {.source = "metaserver", .metrics = {}}, kSecond);
  ASSERT_TRUE(check(one.header).ok());
  ASSERT_EQ(one.rows.size(), 2u);
  EXPECT_EQ(one.header.sources.size(), 1u);
  EXPECT_THAT(one.rows[1].values, testing::ElementsAre(7));
  EXPECT_TRUE(check(one.header, one.rows[1]).ok());
  EXPECT_EQ(one.rows[1].activity.size(), 1u);
  EXPECT_EQ(one.rows[1].restarts.size(), 1u);
  const Trace named = select(trace, {.source = "", .metrics = {"a"}}, INT64_MIN);
  EXPECT_EQ(named.header.metrics.size(), 1u);
  EXPECT_TRUE(named.rows[2].restarts.empty());
  EXPECT_TRUE(named.rows[2].activity.empty());
  const Trace of_sources = select(trace, {.source = "", .metrics = {"a"}, .regions = true}, INT64_MIN);
  EXPECT_EQ(of_sources.header.sources.size(), 1u) << "the other one has no such metric";
  EXPECT_TRUE(of_sources.header.regions.empty());
  const Trace with_regions = select(trace, {.source = "", .metrics = {"b"}, .regions = true}, INT64_MIN);
  ASSERT_EQ(with_regions.header.regions.size(), 1u);
  EXPECT_EQ(with_regions.rows[2].activity.size(), 1u);
  EXPECT_TRUE(check(with_regions.header, with_regions.rows[2]).ok());
  EXPECT_TRUE(select(trace, {.source = "nobody", .metrics = {}}, 0).header.metrics.empty());
}

}  // namespace
}  // namespace kintsugi::metric_trace
