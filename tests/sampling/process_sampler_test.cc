#include "monitoring/sampling/process_sampler.h"

#include <cmath>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

namespace kintsugi::sampling {
namespace {

class Row {
 public:
  Presence take(ProcessSampler& sampler) { return sampler.sample(values_); }
  double operator[](std::string_view name) const {
    const auto metrics = ProcessSampler::metrics();
    const auto found = std::ranges::find(metrics, name, &Metric::name);
    EXPECT_NE(found, metrics.end()) << name;
    return found == metrics.end() ? NAN : values_[static_cast<size_t>(found - metrics.begin())];
  }
  bool all_unknown() const {
    return std::ranges::all_of(values_, [](double value) { return std::isnan(value); });
  }

 private:
  std::vector<double> values_ = std::vector<double>(ProcessSampler::metrics().size());
};

/// A folder as /proc is, with the files of process 7.
class RecordedProc : public testing::Test {
 protected:
  RecordedProc() {
    std::string name = testing::TempDir() + "proc-XXXXXX";
    root_ = ::mkdtemp(name.data());
    std::filesystem::create_directories(root_ + "/7/net");
    std::filesystem::create_directories(root_ + "/7/fd");
    write_stat(5000);
    write("schedstat", "123456789 1000 55\n");
    write("status",
          "Name:\tx\nVmData:\t    1000 kB\nVmStk:\t 132 kB\nVmSwap:\t 0 kB\nRssAnon:\t  2 kB\n"
          "voluntary_ctxt_switches:\t77\nnonvoluntary_ctxt_switches:\t8\n");
    write(
        "io",
        "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\ncancelled_write_bytes: 7\n");
    write("net/dev",
          "Inter-| Receive | Transmit\n face |bytes packets|bytes packets\n"
          "    lo: 100 10 0 0 0 0 0 0 1000 11 0 0 0 0 0 0\n  eth0:200 20 0 0 0 0 0 0 2000 22 0 0 0 0 0 0\n");
    write("net/snmp",
          "Ip: Forwarding\nIp: 1\nTcp: RtoMin MaxConn CurrEstab RetransSegs\nTcp: 200 -1 12 34\n");
    write("net/netstat", "TcpExt: ListenDrops TCPTimeouts\nTcpExt: 3 9\n");
    write("net/sockstat", "sockets: used 99\nTCP: inuse 5 orphan 0 tw 2 alloc 7 mem 3\nUDP: inuse 1 mem 1\n");
    for (const char* fd : {"0", "1", "2"})
      write(std::string("fd/") + fd, "");
  }
  ~RecordedProc() override { std::filesystem::remove_all(root_); }

  void write(const std::string& file, const std::string& text) {
    std::ofstream(root_ + "/7/" + file) << text;
  }
  void write_stat(uint64_t started) {
    write("stat", "7 (a) (b c) S 1 7 7 0 -1 4194560 10 0 12 0 250 50 0 0 20 0 4 0 " +
                      std::to_string(started) + " 8192 3 18446744073709551615\n");
  }

  std::string root_;
  Row row_;
};

TEST_F(RecordedProc, TheLimitOfDescriptorsIsTheSoftOne) {
  ProcessSampler sampler(7, root_);
  EXPECT_TRUE(std::isnan(sampler.descriptors_limit())) << "an old kernel may hide it";
  write("limits",
        "Limit                     Soft Limit           Hard Limit           Units\n"
        "Max processes             100                  100                  processes\n"
        "Max open files            256                  4096                 files\n");
  EXPECT_EQ(sampler.descriptors_limit(), 256);
  write("limits", "Max open files            unlimited            unlimited            files\n");
  EXPECT_TRUE(std::isnan(sampler.descriptors_limit()));
}

TEST_F(RecordedProc, TheLimitOfMemoryIsThatOfTheMachineOrOfTheControlGroupIfThatIsLess) {
  ProcessSampler sampler(7, root_, root_ + "/groups");
  EXPECT_TRUE(std::isnan(sampler.memory_limit()));
  std::ofstream(root_ + "/meminfo") << "MemTotal:       1000 kB\nMemFree:         100 kB\n";
  EXPECT_EQ(sampler.memory_limit(), 1'024'000);
  write("cgroup", "4:memory:/other\n0::/a/b\n");
  EXPECT_EQ(sampler.memory_limit(), 1'024'000) << "the group has no such file";
  std::filesystem::create_directories(root_ + "/groups/a/b");
  std::ofstream(root_ + "/groups/a/b/memory.max") << "max\n";
  EXPECT_EQ(sampler.memory_limit(), 1'024'000);
  std::ofstream(root_ + "/groups/a/b/memory.max") << "4096\n";
  EXPECT_EQ(sampler.memory_limit(), 4096);
}

TEST_F(RecordedProc, AreReadAsTheKernelMeansThem) {
  ProcessSampler sampler(7, root_);
  ASSERT_EQ(row_.take(sampler), Presence::kHere);
  EXPECT_DOUBLE_EQ(row_["utime"], 250.0 / double(sysconf(_SC_CLK_TCK)));
  EXPECT_DOUBLE_EQ(row_["stime"], 50.0 / double(sysconf(_SC_CLK_TCK)));
  const std::vector<std::pair<std::string, double>> expected{
      {"minflt", 10},
      {"majflt", 12},
      {"num_threads", 4},
      {"vsize", 8192},
      {"rss", 3.0 * double(sysconf(_SC_PAGESIZE))},
      {"cpu_ns", 123456789},
      {"run_delay_ns", 1000},
      {"RssAnon", 2048},
      {"VmData", 1024000},
      {"VmStk", 132 * 1024},
      {"VmSwap", 0},
      {"voluntary_ctxt_switches", 77},
      {"nonvoluntary_ctxt_switches", 8},
      {"rchar", 1},
      {"cancelled_write_bytes", 7},
      {"fds", 3},
      {"rx_bytes", 300},
      {"rx_packets", 30},
      {"tx_bytes", 3000},
      {"tx_packets", 33},
      {"TcpRetransSegs", 34},
      {"TcpCurrEstab", 12},
      {"TCPTimeouts", 9},
      {"ListenDrops", 3},
      {"sockets_inuse", 5},
      {"tcp_mem", 3.0 * double(sysconf(_SC_PAGESIZE))}};
  for (const auto& [name, value] : expected)
    EXPECT_DOUBLE_EQ(row_[name], value) << name;
}

TEST_F(RecordedProc, AnotherStartTimeIsARestart) {
  ProcessSampler sampler(7, root_);
  ASSERT_EQ(row_.take(sampler), Presence::kHere);
  write_stat(6000);
  EXPECT_EQ(row_.take(sampler), Presence::kRestarted);
  EXPECT_EQ(row_.take(sampler), Presence::kHere);
}

TEST_F(RecordedProc, MissingAndTruncatedFilesCostOnlyTheirOwnValues) {
  std::filesystem::remove(root_ + "/7/io");
  std::filesystem::remove_all(root_ + "/7/net");
  std::filesystem::remove_all(root_ + "/7/fd");
  write("status", "VmData:");
  ProcessSampler sampler(7, root_);
  EXPECT_EQ(row_.take(sampler), Presence::kHere);
  EXPECT_EQ(row_["minflt"], 10);
  for (const char* name : {"VmData", "RssAnon", "rchar", "fds", "rx_bytes", "TCPTimeouts", "tcp_mem"})
    EXPECT_TRUE(std::isnan(row_[name])) << name;
  write("stat", "7 (half) S 1");
  EXPECT_EQ(row_.take(sampler), Presence::kGone);
  EXPECT_TRUE(row_.all_unknown());
}

TEST(ProcessSampler, SeesALeakOfDescriptorsAndTheTimeOfTheProcessor) {
  ProcessSampler sampler(static_cast<uint32_t>(::getpid()));
  Row before, after;
  ASSERT_EQ(before.take(sampler), Presence::kHere);
  ASSERT_EQ(before.take(sampler), Presence::kHere);  // the sampler's own files are open now
  std::vector<int> leaked;
  for (int i = 0; i < 50; ++i)
    leaked.push_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  timespec now{};
  const auto spent_ns = [&] {
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1'000'000'000 + now.tv_nsec;
  };
  for (const int64_t begin = spent_ns(); spent_ns() < begin + 50'000'000;) {
  }
  ASSERT_EQ(after.take(sampler), Presence::kHere);
  EXPECT_EQ(after["fds"], before["fds"] + 50);
  EXPECT_GE(after["cpu_ns"], before["cpu_ns"] + 40e6);
  EXPECT_GT(after["rss"], 0);
  for (const int fd : leaked)
    ::close(fd);
}

TEST(ProcessSampler, SaysThatAProcessHasEnded) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  ProcessSampler sampler(static_cast<uint32_t>(child));
  Row row;
  EXPECT_EQ(row.take(sampler), Presence::kHere);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(row.take(sampler), Presence::kGone);
  EXPECT_TRUE(row.all_unknown());
}

}  // namespace
}  // namespace kintsugi::sampling
