// In which window, at which server and at which transition something was unlike everything before.
#include <bit>
#include <functional>

#include <gmock/gmock.h>

#include "common/base/draws.h"
#include "monitoring/similarity/odd_windows.h"

namespace kintsugi::similarity {
namespace {

constexpr uint64_t kCompute = 1, kDisk = 2, kCall = 3;

StateUse use_of(uint64_t state) {
  return state == kCompute ? StateUse::kWorks : state == kDisk ? StateUse::kDevice : StateUse::kWaits;
}

/// Ten servers that compute for about 100 µs, wait for their disks for a millisecond and for others for ten, a thousand times in each window.
class OddServers {
 public:
  static constexpr size_t kServers = 10;
  std::function<void(size_t server, ProcessWindow& window)> change = [](size_t, ProcessWindow&) {};

  std::vector<OddWindow> window() {
    std::vector<OddWindow> out;
    for (size_t server = 0; server < kServers; ++server) {
      ProcessWindow window{.process = 100 + server,
                           .kind = "chunkserver",
                           .began = now_,
                           .ended = now_ + 10s,
                           .stays = {},
                           .memory_bytes = 2e8 + 1e7 * draws_.uniform(),
                           .delayed_s = 0.1 * draws_.uniform()};
      for (const auto& [state, usual] : {std::pair{kCompute, 1e5}, {kDisk, 1e6}, {kCall, 1e7}})
        for (int i = 0; i < 1000; ++i)
          stay(window, state, usual * std::exp(0.5 * draws_.normal()));
      change(server, window);
      out.push_back(odd_.add(window));
    }
    now_ += 10s;
    return out;
  }
  void windows(int count) {
    for (int i = 0; i < count; ++i)
      window();
  }
  static void stay(ProcessWindow& window, uint64_t state, double ns) {
    const Transition transition{state, 9};
    auto at = std::ranges::find(window.stays, transition, &Stays::transition);
    if (at == window.stays.end()) at = window.stays.insert(at, {.transition = transition, .by_octave = {}});
    const auto octave = static_cast<size_t>(std::bit_width(static_cast<uint64_t>(ns)) - 1);
    at->by_octave[std::min(octave, Stays::kOctaves - 1)]++;
  }
  /// The scores of all servers but one are those of usual windows.
  static void expect_only(const std::vector<OddWindow>& windows, size_t odd) {
    for (size_t server = 0; server < windows.size(); ++server) {
      if (server == odd) continue;
      EXPECT_LE(windows[server].score, OddWindows::kOdd) << server;
      EXPECT_LT(windows[server].score, windows[odd].score) << server;
    }
    EXPECT_GT(windows[odd].score, OddWindows::kOdd);
  }

 private:
  OddWindows odd_{use_of};
  Draws draws_{7};
  TimePoint now_{1h};
};

TEST(OddWindows, NothingIsOddOfWhatIsUsual) {
  OddServers servers;
  for (int i = 0; i < 50; ++i)
    for (const OddWindow& window : servers.window())
      EXPECT_LE(window.score, OddWindows::kOdd) << i;
}

TEST(OddWindows, OneStallAmongAThousandStaysIsFoundWithItsTransition) {
  OddServers servers;
  servers.windows(10);
  servers.change = [](size_t server, ProcessWindow& window) {
    if (server == 4) OddServers::stay(window, kDisk, 2e9);
  };
  const auto found = servers.window();
  OddServers::expect_only(found, 4);
  EXPECT_EQ(found[4].because, OddBecause::kTime);
  ASSERT_FALSE(found[4].top.empty());
  EXPECT_EQ(found[4].top[0].transition.from, kDisk);
  EXPECT_NEAR(found[4].excess_s, 2, 0.5);
}

TEST(OddWindows, WhatIsOddIsNotLearntHoweverLongItLasts) {
  OddServers servers;
  servers.windows(10);
  servers.change = [](size_t server, ProcessWindow& window) {
    if (server == 4) OddServers::stay(window, kDisk, 2e9);
  };
  servers.windows(100);
  OddServers::expect_only(servers.window(), 4);
}

TEST(OddWindows, WhoWaitsForAnotherIsNotOdd) {
  OddServers servers;
  servers.windows(10);
  servers.change = [](size_t server, ProcessWindow& window) {
    OddServers::stay(window, server == 4 ? kCompute : kCall, 5e9);
  };
  OddServers::expect_only(servers.window(), 4);
}

TEST(OddWindows, OfEqualStaysThoseOfTheCodeStandBeforeThoseOfTheDisk) {
  // Code held the loop for a second: what the disk had completed meanwhile was seen late.
  OddServers servers;
  servers.windows(10);
  servers.change = [](size_t server, ProcessWindow& window) {
    if (server != 4) return;
    OddServers::stay(window, kDisk, 1.1e9);
    OddServers::stay(window, kCompute, 1.1e9);
  };
  const auto found = servers.window();
  OddServers::expect_only(found, 4);
  EXPECT_EQ(found[4].top[0].transition.from, kCompute);
}

TEST(OddWindows, WhatHappensToAllIsNobodysFault) {
  OddServers servers;
  servers.windows(10);
  servers.change = [](size_t, ProcessWindow& window) {
    OddServers::stay(window, kDisk, 2e9);
    window.delayed_s += 3;
  };
  servers.window();  // the first ones of it know no peers yet
  for (const OddWindow& window : servers.window())
    EXPECT_LE(window.score, OddWindows::kOdd);
}

TEST(OddWindows, MemoryAndTheLackOfAProcessorAreSaid) {
  OddServers servers;
  servers.windows(10);
  servers.change = [](size_t server, ProcessWindow& window) {
    if (server == 4) window.memory_bytes += 5e8;
  };
  auto found = servers.window();
  OddServers::expect_only(found, 4);
  EXPECT_EQ(found[4].because, OddBecause::kMemory);
  servers.change = [](size_t server, ProcessWindow& window) {
    if (server != 5) return;
    window.delayed_s = 8;
    for (int i = 0; i < 20; ++i)
      OddServers::stay(window, kCompute, 1e8);
  };
  found = servers.window();
  OddServers::expect_only(found, 5);
  EXPECT_EQ(found[5].because, OddBecause::kProcessor);
}

}  // namespace
}  // namespace kintsugi::similarity
