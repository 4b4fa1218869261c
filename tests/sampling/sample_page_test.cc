#include <gtest/gtest.h>

#include "common/metrics/metrics.h"

namespace kintsugi::metrics {
namespace {

TEST(SamplePage, HasOneValueForEachNameInTheSameOrder) {
  Metrics metrics;
  double bytes = 0.1;
  metrics.gauge("b_bytes", "B.", {{"disk", "/d"}, {"call", "read"}}, [&] { return bytes; });
  metrics.gauge("b_bytes", "B.", {{"disk", "/e"}}, [] { return 1e15; });
  metrics.counter("a_total", "A.", {}, [] { return 3.0; });
  metrics.info("i", "I.", [] { return Labels{{"x", "y"}}; });
  metrics.add_process_metrics();  // /proc has these, for less
  EXPECT_EQ(metrics.sample_names(),
            "c a_total\ng b_bytes{call=\"read\",disk=\"/d\"}\ng b_bytes{disk=\"/e\"}\n");
  EXPECT_EQ(metrics.sample_values(), "3 0.1 1000000000000000\n");
  bytes = 7;
  EXPECT_EQ(metrics.sample_values(), "3 7 1000000000000000\n");
  int prepared = 0;
  metrics.before_reading([&] { ++prepared; });
  metrics.sample_regions([](std::string& lines) { lines += "disk.read=2 disk.write=1\ndisk.read=17\n"; });
  EXPECT_EQ(metrics.sample_values(), "3 7 1000000000000000\ndisk.read=2 disk.write=1\ndisk.read=17\n");
  EXPECT_EQ(prepared, 1) << "once for all values of a page";
  (void)metrics.text();
  EXPECT_EQ(prepared, 2);
}

}  // namespace
}  // namespace kintsugi::metrics
