#include <atomic>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/runtime/production/production_runtime.h"
#include "monitoring/sight/module.h"
#include "monitoring/sight/pages.h"
#include "monitoring/sight/recorder.h"
#include "monitoring/sight/request_metrics.h"
#include "monitoring/sight/thread_log.h"
#include "tests/monitoring/hand_clock.h"

namespace kintsugi::sight {
namespace {

constexpr Site kOuter{"test.outer", {"bytes"}, {"blocks"}};
constexpr Site kInner{"test.inner"};

TEST(Sight, RecordsNamesInputsOutputsAndDuration) {
  HandClock clock;
  Recorder recorder(clock, 1);
  {
    Module outer{recorder.root_context(), kOuter, {4096.0}};
    clock.advance(3ms);
    outer.output(0, 7);
    EXPECT_FALSE(outer.finish(Status{Code::kCorrupt, "block 3"}).ok());
  }
  const auto events = recorder.recent_events(10);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].site->name, "test.outer");
  EXPECT_EQ(events[0].inputs[0], 4096.0);
  EXPECT_EQ(events[0].outputs[0], 7.0);
  EXPECT_EQ(events[0].output_mask, 1);
  EXPECT_EQ(events[0].duration, 3ms);
  EXPECT_EQ(events[0].code, Code::kCorrupt);
  EXPECT_NE(events[0].trace_id, 0u);
}

TEST(Sight, NestedModulesShareTheTraceAndNameTheirCallingContext) {
  HandClock clock;
  Recorder recorder(clock, 1);
  {
    Module outer{recorder.root_context(), kOuter};
    Module inner{outer.context(), kInner};
    EXPECT_EQ(inner.context().trace.trace_id, outer.context().trace.trace_id);
  }
  {
    Module alone{recorder.root_context(), kInner};
  }
  const auto totals = recorder.totals();
  ASSERT_EQ(totals.size(), 3u) << "inner below outer and inner alone are different calling contexts";
  const uint64_t nested = child_path(child_path(0, kOuter), kInner);
  EXPECT_EQ(path_names(totals).at(nested), "test.outer > test.inner");
}

TEST(Sight, RequestsOfAnOperationAreCountedWithTheirTime) {
  constexpr Site kRead{"serve.ReadChunk"}, kSmall{"serve.ReadSmallChunk"}, kWrite{"serve.WriteChunk"};
  HandClock clock;
  Recorder recorder(clock, 1);
  metrics::Metrics metrics;
  add_request_metrics(metrics, recorder,
                      {{"read", {"ReadChunk", "ReadSmallChunk"}}, {"write", {"WriteChunk"}}});
  for (const Site* site : {&kRead, &kSmall, &kRead}) {
    Module served{recorder.root_context(), *site};
    clock.advance(500ms);
  }
  {
    Module open{recorder.root_context(), kWrite};
    const std::string text = metrics.text();
    EXPECT_NE(text.find("kintsugi_requests_total{operation=\"read\"} 3\n"), std::string::npos) << text;
    EXPECT_NE(text.find("kintsugi_request_seconds_total{operation=\"read\"} 1.5\n"), std::string::npos)
        << text;
    EXPECT_NE(text.find("kintsugi_requests_total{operation=\"write\"} 0\n"), std::string::npos)
        << "it has not ended";
  }
  EXPECT_NE(metrics.sample_values().find("3 1\n"), std::string::npos) << metrics.sample_values();
}

TEST(Sight, RegionsThatAreOpenOrEndedAreCountedByName) {
  HandClock clock;
  Recorder recorder(clock, 1);
  runtime::ProductionRuntime production;
  http::HttpServer http(production.runtime());
  metrics::Metrics metrics;
  add_pages(http, metrics, recorder);
  EXPECT_EQ(metrics.sample_values(), "\n\n\n");
  {
    Module outer{recorder.root_context(), kOuter};
    Module inner{outer.context(), kInner};
    const Task other{recorder.root_context(), kInner};
    EXPECT_EQ(metrics.sample_values(), "\ntest.inner=2 test.outer=1\n\n");
    EXPECT_NE(metrics.text().find("\nkintsugi_module_open{module=\"test.inner\"} 2\n"), std::string::npos);
  }
  EXPECT_EQ(metrics.sample_values(), "\n\ntest.inner=2 test.outer=1\n");
}

TEST(Sight, AContextFromAnotherProcessContinuesItsTraceAndPath) {
  HandClock clock;
  Recorder here(clock, 1), there(clock, 2);
  Context over_the_wire;
  {
    Module outer{here.root_context(), kOuter};
    over_the_wire.trace = outer.context().trace;
  }
  over_the_wire.recorder = &there;
  {
    Module inner{over_the_wire, kInner};
  }
  const auto events = there.recent_events(1);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].trace_id, over_the_wire.trace.trace_id);
  EXPECT_EQ(events[0].parent_span_id, over_the_wire.trace.span_id);
  EXPECT_EQ(path_names(there.totals()).at(events[0].path), "(remote) > test.inner");
}

TEST(Sight, MemoryIsBoundedAndTheNewestEventsStay) {
  HandClock clock;
  Recorder recorder(clock, 1, {.ring_events = 8, .max_paths = 4});
  for (int i = 0; i < 100; ++i)
    Module{recorder.root_context(), kOuter, {double(i)}};
  const auto events = recorder.recent_events(1000);
  ASSERT_EQ(events.size(), 8u);
  double smallest = 1e9;
  for (const Event& event : events)
    smallest = std::min<double>(smallest, event.inputs[0]);
  EXPECT_EQ(smallest, 92.0);
  EXPECT_EQ(recorder.totals()[0].count, 100u);

  // Deeper and deeper nesting makes new paths; past the limit they are counted together.
  Context context = recorder.root_context();
  for (int depth = 0; depth < 20; ++depth) {
    Module module{context, kInner};
    context = module.context();
  }
  const auto totals = recorder.totals();
  EXPECT_LE(totals.size(), 5u);
  uint64_t count = 0;
  for (const PathTotals& path : totals)
    count += path.count;
  EXPECT_EQ(count, 120u);
}

TEST(Sight, HistogramBucketsArePowersOfTwoMicroseconds) {
  EXPECT_EQ(duration_bucket(999ns), 0u);
  EXPECT_EQ(duration_bucket(1us), 1u);
  EXPECT_EQ(duration_bucket(3us), 2u);
  EXPECT_EQ(duration_bucket(4us), 3u);
  EXPECT_EQ(duration_bucket(1h), PathTotals::kBuckets - 1);
}

TEST(Sight, ReadersSeeWholeEventsWhileAThreadWrites) {
  HandClock clock;
  Recorder recorder(clock, 1, {.ring_events = 16});
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (double i = 1; !stop; ++i) {
      Module module{recorder.root_context(), kOuter, {i, i, i, i}};
      module.output(0, i);
    }
  });
  size_t seen = 0;
  while (seen < 20000) {
    for (const Event& event : recorder.recent_events(16)) {
      for (size_t i = 0; i < event.input_count; ++i)
        ASSERT_EQ(event.inputs[i], event.outputs[0]) << "a torn event";
      ++seen;
    }
  }
  stop = true;
  writer.join();
}

TEST(Sight, AThousandCallingContextsHaveTheirNames) {
  HandClock clock;
  Recorder recorder(clock, 1);
  std::vector<std::string> names;
  std::vector<Site> sites;
  for (int i = 0; i < 32; ++i)
    names.push_back("test.site" + std::to_string(i));
  for (const std::string& name : names)
    sites.push_back({name});
  for (const Site& first : sites)
    for (const Site& second : sites) {
      Module outer{recorder.root_context(), first};
      Module inner{outer.context(), second};
    }
  const auto totals = recorder.totals();
  const auto known = path_names(totals);
  EXPECT_EQ(known.at(child_path(child_path(0, sites[3]), sites[7])), "test.site3 > test.site7");
  for (const PathTotals& path : totals)
    ASSERT_TRUE(known.contains(path.path));
}

TEST(Sight, ATraceIsExportedAsOtlpTakesIt) {
  HandClock clock;
  Recorder recorder(clock, 1);
  TraceContext trace;
  {
    Module outer{recorder.root_context(), kOuter, {4096.0}};
    trace = outer.context().trace;
    clock.advance(3ms);
    Module inner{outer.context(), kInner};
    inner.set_code(Code::kIoError);
  }
  Module{recorder.root_context(), kOuter};  // of another trace
  const std::string id = fmt::format("{:016x}", trace.trace_id);
  EXPECT_EQ(trace_of_query("id=" + id), trace.trace_id);
  EXPECT_EQ(trace_of_query("a=1&id=0123456789abcdef" + id), trace.trace_id);
  EXPECT_EQ(trace_of_query("id=xyz"), 0u);
  const auto request = nlohmann::json::parse(trace_as_otlp(recorder, trace.trace_id, 5));
  const auto& spans = request["resourceSpans"][0]["scopeSpans"][0]["spans"];
  ASSERT_EQ(spans.size(), 2u);
  const auto& outer = spans[0]["name"] == "test.outer" ? spans[0] : spans[1];
  const auto& inner = spans[0]["name"] == "test.outer" ? spans[1] : spans[0];
  EXPECT_EQ(outer["traceId"].get<std::string>().size(), 32u);
  EXPECT_EQ(outer["traceId"].get<std::string>().substr(16), id);
  EXPECT_FALSE(outer.contains("parentSpanId"));
  EXPECT_EQ(inner["parentSpanId"], outer["spanId"]);
  EXPECT_EQ(outer["startTimeUnixNano"], "3600000000005");
  EXPECT_EQ(outer["endTimeUnixNano"], "3600003000005");
  EXPECT_EQ(outer["attributes"][0]["key"], "bytes");
  EXPECT_EQ(inner["status"]["code"], 2);
}

}  // namespace
}  // namespace kintsugi::sight
