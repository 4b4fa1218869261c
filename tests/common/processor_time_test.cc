#include "common/runtime/production/processor_time.h"

#include <atomic>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

namespace kintsugi::runtime {
namespace {

namespace fs = std::filesystem;

/// A made up /proc.
struct Proc {
  fs::path root = fs::temp_directory_path() / ("kintsugi-proc-" + std::to_string(::getpid()));
  Proc() { fs::create_directories(root / "self/task"); }
  ~Proc() { fs::remove_all(root); }
  void write(const fs::path& path, const std::string& text) const {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  }
  void thread(int id, const std::string& schedstat) const {
    write("self/task/" + std::to_string(id) + "/schedstat", schedstat);
  }
};

TEST(ProcessorClock, SaysWhatAThreadAndAllOfThemRanAndWaitedForAProcessor) {
  const Proc proc;
  proc.thread(7, "5000 300 2\n");
  proc.thread(8, "100 20 1\n");
  proc.write("pressure/cpu", "some avg10=0.05 avg60=0.28 avg300=4.07 total=71\nfull avg10=0.00 total=9\n");
  proc.write("sys/kernel/random/boot_id", "6fe8e24d-0c84\n");
  proc.write("self/statm", "900 25 3 1 0 7 0\n");
  ProcessorClock clock(proc.root);
  EXPECT_EQ(clock.machine(), "6fe8e24d-0c84");
  const SystemFacts facts = clock.read(7);
  EXPECT_EQ(facts.thread.ran, 5000ns);
  EXPECT_EQ(facts.thread.delayed, 300ns);
  EXPECT_EQ(facts.process.ran, 5100ns);
  EXPECT_EQ(facts.process.delayed, 320ns);
  EXPECT_EQ(facts.pressure, 71us);
  EXPECT_EQ(facts.memory_bytes, 25U * static_cast<uint64_t>(::getpagesize()));
}

TEST(ProcessorClock, TotalsOfTheProcessDoNotFallWhenAThreadEndsOrItsNumberIsTakenAgain) {
  const Proc proc;
  proc.thread(7, "5000 300 2");
  proc.thread(8, "100 20 1");
  proc.thread(9, "50 5 1");
  ProcessorClock clock(proc.root);
  clock.read(7);
  fs::remove_all(proc.root / "self/task/8");
  proc.thread(9, "1 1 1");
  EXPECT_EQ(clock.read(7).process.ran, 5151ns);
  EXPECT_EQ(clock.read(7).process.delayed, 326ns);
}

TEST(ProcessorClock, AKernelThatDoesNotSayOrSaysNonsenseIsNoFailure) {
  const Proc proc;
  for (const char* nonsense : {"", "five", "-1 -3 1", "7"}) {
    proc.thread(7, nonsense);
    proc.write("pressure/cpu", nonsense);
    proc.write("self/statm", nonsense);
    const SystemFacts facts = ProcessorClock(proc.root).read(7);
    EXPECT_EQ(facts.thread.ran, 0ns) << nonsense;
    EXPECT_EQ(facts.pressure, 0ns) << nonsense;
    EXPECT_EQ(facts.memory_bytes, 0U) << nonsense;
  }
  EXPECT_EQ(ProcessorClock(proc.root / "nowhere").read(7).process.ran, 0ns);
}

/// A thread on the first processor that this process may use, which does `work` again and again.
struct Pinned {
  std::atomic<bool> stop = false;
  std::atomic<pid_t> id = 0;
  std::thread thread;
  template <class Work>
  explicit Pinned(Work work)
      : thread([this, work] {
          cpu_set_t allowed, one;
          sched_getaffinity(0, sizeof(allowed), &allowed);
          int first = 0;
          while (!CPU_ISSET(first, &allowed))
            ++first;
          CPU_ZERO(&one);
          CPU_SET(first, &one);
          pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
          id = ::gettid();
          while (!stop)
            work();
        }) {
    while (id == 0)
      std::this_thread::yield();
  }
  ~Pinned() {
    stop = true;
    thread.join();
  }
};

TEST(ProcessorClock, TwoThreadsThatShareAProcessorAreDelayedByEachOtherAndOneThatSleepsIsNot) {
  ProcessorClock clock;
  if (clock.read(::gettid()).thread.ran == 0ns) GTEST_SKIP() << "the kernel does not say";
  const auto spin = [] {};
  const Pinned one(spin), other(spin);
  const Pinned sleeper([] { std::this_thread::sleep_for(200ms); });
  const auto of = [&](const Pinned& pinned) { return clock.read(pinned.id).thread; };
  const ProcessorTimes before = of(one), asleep_before = of(sleeper);
  // Either of them may get it all for a while; not for as long as this.
  const TimePoint limit = std::chrono::steady_clock::now() + 60s;
  while (std::chrono::steady_clock::now() < limit &&
         (of(one).delayed - before.delayed < 300ms || of(one).ran - before.ran < 50ms))
    std::this_thread::sleep_for(50ms);
  const ProcessorTimes after = of(one), asleep_after = of(sleeper);
  EXPECT_GE(after.delayed - before.delayed, 300ms);
  EXPECT_GE(after.ran - before.ran, 50ms);
  EXPECT_LT(asleep_after.ran - asleep_before.ran, 50ms) << "who sleeps neither runs";
  EXPECT_LT(asleep_after.delayed - asleep_before.delayed, after.delayed - before.delayed)
      << "nor waits for a processor as one does that could run";
}

}  // namespace
}  // namespace kintsugi::runtime
