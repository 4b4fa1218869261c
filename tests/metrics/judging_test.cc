// What the methods of `kintsugi-monitor judge` say that read activity logs, or set processes of a role against each other.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "monitoring/judging/report.h"
#include "monitoring/metrics/trace/coarser.h"
#include "tests/metrics/trace_rig.h"

namespace kintsugi::judging {
namespace {

using metric_trace::kSecond;
using metric_trace::Trace;
using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr int64_t kBegan = 1'795'800'000 * kSecond;
constexpr size_t kServers = 3;

/// What a server does in one second.
struct Second {
  double own = 0, system = 0;  ///< ticks of its own and of the kernel for it
  double fds = 0;
  double pages = 0;    ///< page faults
  bool reads = false;  ///< the log tells that it reads a chunk
};

/// A server whose work comes and goes, a state of twenty to sixty seconds after the other.
class Server {
 public:
  explicit Server(uint64_t seed) : draws_(seed) {}
  Second next() {
    if (left_ == 0) {
      busy_ = !busy_;
      left_ = 20 + draws_.below(40);
    }
    --left_;
    const double work = (busy_ ? 0.5 : 0.05) * (1 + 0.1 * draws_.normal());
    return {.own = work, .system = 0.5 * work * (1 + 0.05 * draws_.normal()), .fds = 50, .reads = busy_};
  }

 private:
  Draws draws_;
  bool busy_ = false;
  size_t left_ = 0;
};

/// A trace and the activity logs of some servers.
struct Recorded {
  Trace trace;
  std::string logs;
};

/// Changes what a server does in a second.
using Fault = std::function<void(size_t server, size_t second, Second& does)>;

class Judging : public ::testing::Test {
 protected:
  Judging() {
    std::string name = (std::filesystem::temp_directory_path() / "judging.XXXXXX").string();
    directory_ = ::mkdtemp(name.data());
  }
  ~Judging() override { std::filesystem::remove_all(directory_); }

  Recorded recorded(uint64_t seed, size_t seconds, const Fault& fault = {}, size_t servers = kServers) const {
    Recorded out{.trace = {}, .logs = fmt::format("{}/logs-{}", directory_, seed)};
    std::filesystem::create_directory(out.logs);
    out.trace.rows.resize(seconds);
    for (size_t s = 0; s < servers; ++s)
      record(out, s, seed * 10 + s, fault);
    return out;
  }

  Json judged(std::string_view method, const Recorded& healthy, const Recorded& now) const {
    const auto report = judge(
        method, {.healthy = healthy.trace, .now = now.trace, .healthy_logs = healthy.logs, .logs = now.logs});
    EXPECT_TRUE(report) << report.error();
    return report ? Json::parse(report->json) : Json();
  }

  std::string directory_;

 private:
  static void record(Recorded& out, size_t server, uint64_t seed, const Fault& fault) {
    const std::string name = fmt::format("chunkserver-{}", server + 1);
    out.trace.header.sources.push_back({.name = name, .build_id = "b1"});
    for (const char* metric : {"utime", "stime", "minflt"})
      out.trace.header.metrics.push_back(
          {.name = metric, .kind = metric_trace::Kind::kCounter, .source = static_cast<uint32_t>(server)});
    out.trace.header.metrics.push_back({.name = "fds", .source = static_cast<uint32_t>(server)});
    std::ofstream log(out.logs + "/" + name + ".activity.log");
    Server process(seed);
    double own = 0, system = 0, pages = 0;
    bool open = false;
    for (size_t second = 0; second < out.trace.rows.size(); ++second) {
      Second does = process.next();
      if (fault) fault(server, second, does);
      metric_trace::Row& row = out.trace.rows[second];
      row.t_ns = kBegan + static_cast<int64_t>(second) * kSecond + kSecond / 2;
      row.values.insert(row.values.end(),
                        {own += does.own, system += does.system, pages += does.pages, does.fds});
      if (does.reads != open)
        log << fmt::format("{:%Y-%m-%dT%H:%M:%S}.000000+0000 activity {} chunkserver.read_chunk a{}\n",
                           fmt::gmtime(static_cast<std::time_t>(row.t_ns / kSecond)),
                           does.reads ? "start" : "stop", does.reads ? "" : " ok");
      open = does.reads;
    }
  }
};

std::vector<std::string> servers_of(const Json& found) {
  std::vector<std::string> out;
  for (const Json& each : found)
    if (!each.contains("not_judged")) out.push_back(each["server"]);
  return out;
}

TEST_F(Judging, RamsAccusesTheServerThatSpinsMostStrongly) {
  const Recorded healthy = recorded(1, 2400);
  const Json found = judged("rams", healthy, recorded(2, 700, [](size_t server, size_t second, Second& does) {
                              if (server == 1 && second >= 480) does.own = 1;
                            }));
  std::map<std::string, double> strongest;
  for (const Json& each : found)
    if (each.contains("excess") && each["t_ns"].get<int64_t>() >= kBegan + 480 * kSecond) {
      double& excess = strongest[each["server"]];
      excess = std::max(excess, each["excess"].get<double>());
    }
  ASSERT_TRUE(strongest.contains("chunkserver-2")) << found;
  for (const auto& [server, excess] : strongest)
    EXPECT_LE(excess, strongest["chunkserver-2"]) << server;
}

TEST_F(Judging, RamsSaysOfWhomItHasNoHealthyRuns) {
  const Json found = judged("rams", recorded(1, 300), recorded(2, 300));
  ASSERT_EQ(found.size(), kServers);
  EXPECT_THAT(found[0]["not_judged"].get<std::string>(), HasSubstr("healthy runs"));
}

TEST_F(Judging, RamsSaysOfWhomItHasTooFewRowsThoughTheyHavePeers) {
  const Json found = judged("rams", recorded(1, 900, {}, 5), recorded(2, 30, {}, 5));
  ASSERT_EQ(found.size(), 5U) << found;
  EXPECT_TRUE(found[0].contains("not_judged")) << found;
}

TEST_F(Judging, TheTextsRamsNeedsNoHealthyTime) {
  const Json found = judged("rams-text", Recorded(), recorded(2, 700));
  ASSERT_EQ(found.size(), kServers);
  EXPECT_TRUE(found[0].contains("p")) << found;
}

TEST_F(Judging, TheTextsBlackSheepNamesTheServerWhoseLogTellsOfWorkThatItDoesNotDo) {
  const Recorded healthy = recorded(1, 3600);
  const Json found =
      judged("blacksheep-text", healthy, recorded(2, 600, [](size_t server, size_t second, Second& does) {
               if (server == 2 && second >= 200) does.own = does.system = 0.02;
             }));
  const std::vector<std::string> accused = servers_of(found);
  ASSERT_FALSE(accused.empty()) << found;
  EXPECT_THAT(accused, ::testing::Each("chunkserver-3")) << found;
  EXPECT_EQ(found[0]["region"], "chunkserver.read_chunk");
  EXPECT_EQ(found[0]["alone"], "state");
}

TEST_F(Judging, BlackSheepNamesTheServerThatDoesWorkThatItsLogDoesNotTellOf) {
  const Fault leak = [](size_t server, size_t second, Second& does) {
    if (server == 2 && second >= 40) does.pages = 500;
  };
  const Recorded healthy = recorded(1, 600, {}, 5), now = recorded(2, 100, leak, 5);
  const Json found = judged("blacksheep", healthy, now);
  ASSERT_EQ(found.size(), 1U) << found;
  EXPECT_EQ(found[0]["server"], "chunkserver-3");
  EXPECT_EQ(found[0]["accused"], true);
  EXPECT_EQ(found[0]["alone"], "machine");
  EXPECT_EQ(found[0]["name"], "minflt");
  EXPECT_EQ(found[0]["resource"], "memory");
  const auto report =
      judge("blacksheep",
            {.healthy = healthy.trace, .now = now.trace, .healthy_logs = healthy.logs, .logs = now.logs});
  EXPECT_TRUE(report->odd);
  EXPECT_THAT(report->lines[0], HasSubstr("chunkserver-3: does work that its log does not tell of (memory)"));
}

TEST_F(Judging, BlackSheepSaysWhomItCannotJudgeAndWhy) {
  const auto why = [&](size_t healthy_seconds, size_t seconds, size_t servers) {
    const Json found =
        judged("blacksheep", recorded(1, healthy_seconds, {}, servers), recorded(2, seconds, {}, servers));
    EXPECT_EQ(found.size(), servers) << found;
    return found[0]["not_judged"].get<std::string>();
  };
  EXPECT_THAT(why(600, 100, 3), HasSubstr("not enough data because there are 3 processes of its role"));
  EXPECT_THAT(why(60, 100, 5), HasSubstr("of a healthy time before"));
  EXPECT_THAT(why(600, 6, 5), HasSubstr("not enough data because there are 5 samples of 10"));
  Recorded silent = recorded(2, 100, {}, 5);
  for (metric_trace::Row& row : silent.trace.rows)
    row.values.assign(row.values.size(), metric_trace::kMissing);
  EXPECT_EQ(judged("blacksheep", recorded(1, 600, {}, 5), silent)[0]["not_judged"],
            "not enough data because values are missing in the window");
}

TEST_F(Judging, BlackSheepSaysWhichLogIsMissing) {
  const Recorded healthy = recorded(1, 600, {}, 5), now = recorded(2, 100, {}, 5);
  for (const char* method : {"blacksheep", "blacksheep-text"}) {
    EXPECT_THAT(std::string(judge(method, healthy.trace, now.trace).error().message()), HasSubstr("--logs"));
    const auto report = judge(
        method, {.healthy = healthy.trace, .now = now.trace, .healthy_logs = healthy.logs, .logs = "/none"});
    EXPECT_THAT(std::string(report.error().message()), HasSubstr("/none"));
  }
  std::filesystem::remove(now.logs + "/chunkserver-1.activity.log");
  for (const char* method : {"blacksheep", "blacksheep-text"})
    EXPECT_THAT(judged(method, healthy, now)[0]["not_judged"].get<std::string>(),
                HasSubstr("chunkserver-1.activity.log"));
}

TEST(Coarser, RowsAreAveragedWithinALifeOfTheProcess) {
  Trace trace =
      metric_trace::gauges({"rss"}, 11, [](size_t row) { return std::vector<double>{double(row)}; });
  trace.rows[6].restarts = {{0, "b2"}};
  const auto series = metric_trace::averaged_to(metric_trace::series_of(trace, 0), std::chrono::seconds(2));
  // Rows 1 to 5 and 7 to 10: the first row of a life gives no rates, and the fifth fills no mean.
  ASSERT_EQ(series.rows(), 4U);
  EXPECT_DOUBLE_EQ(series.values(0, 0), 1.5);
  EXPECT_DOUBLE_EQ(series.values(2, 0), 7.5);
  EXPECT_EQ(series.t_ns[0], 2 * kSecond);
  EXPECT_EQ(series.segments[1].build_id, "b2");
  EXPECT_EQ(series.period, std::chrono::seconds(2));
}

TEST(Coarser, ARoleIsTheNameWithoutNumberOrAddress) {
  EXPECT_EQ(metric_trace::role_of("chunkserver-13"), "chunkserver");
  EXPECT_EQ(metric_trace::role_of("repair manager 127.0.0.1:41769"), "repair manager");
  EXPECT_EQ(metric_trace::role_of("metaserver"), "metaserver");
  EXPECT_EQ(metric_trace::role_of("17"), "17");
}

}  // namespace
}  // namespace kintsugi::judging
