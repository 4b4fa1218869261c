// Who may read what daemons write, and what becomes of log files that are moved away.
#include <csignal>
#include <filesystem>
#include <sstream>

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/processes/process_cluster.h"

namespace kintsugi::processes {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using testing::HasSubstr;

class DaemonFiles : public ProcessCluster {
 protected:
  /// The files of the cluster that a user who is nobody here can read, one a line.
  std::string readable_by_others() const {
    fs::permissions(path("."), fs::perms(0755));  // others come as far as the cluster
    const Outcome found = run_command({"/usr/bin/setpriv", "--reuid", "65534", "--regid", "65534",
                                       "--clear-groups", "/usr/bin/find", cluster_directory(), "-type", "f",
                                       "-readable", "-not", "-name", "env"});
    EXPECT_NE(found.exit_code, 127) << found.err;
    EXPECT_EQ(run_command({"/usr/bin/setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups",
                           "/usr/bin/test", "-r", cluster_directory() + "/env"})
                  .exit_code,
              0)
        << "others come as far as the cluster";
    return found.out;
  }
  /// Waits until the process ignores SIGHUP, or has a handler for it. False: it ends before.
  static bool comes_to_take_hangups(BackgroundCommand& daemon) {
    for (int waits = 0; waits < 20'000 && daemon.running(); ++waits, ::usleep(1'000)) {
      std::istringstream status(read_file("/proc/" + std::to_string(daemon.pid()) + "/status"));
      for (std::string line; std::getline(status, line);) {
        const bool has_signals = line.starts_with("SigIgn:") || line.starts_with("SigCgt:");
        if (has_signals && (std::stoull(line.substr(7), nullptr, 16) >> (SIGHUP - 1) & 1) != 0) return true;
      }
    }
    return false;
  }
  static mode_t mode_of(const std::string& file) {
    struct stat state{};
    EXPECT_EQ(::stat(file.c_str(), &state), 0) << file;
    return state.st_mode & 0777;
  }
  std::string log_of(const std::string& daemon) const {
    return cluster_directory() + "/log/" + daemon + ".log";
  }
  std::string logged(const std::string& daemon) const {
    return fs::exists(log_of(daemon)) ? read_file(log_of(daemon)) : "";
  }
};

TEST_F(DaemonFiles, AreReadByNobodyElse) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become somebody else";
  start({"--chunkservers", "4", "--policy", "rs-2-1-64k"});
  ASSERT_EQ(kintsugi({"put", make_file("file", 300'000, 1), "/file"}).exit_code, 0);
  EXPECT_EQ(readable_by_others(), "");
}

TEST_F(DaemonFiles, OfAnEarlierVersionAreClosedByTheNextStart) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become somebody else";
  start({"--chunkservers", "4", "--policy", "rs-2-1-64k"});
  for (const char* part : {"data", "log", "run", "etc", "cluster.json"})
    run_command({"/usr/bin/chmod", "-R", "a+rX", cluster_directory() + "/" + part});
  EXPECT_THAT(readable_by_others(), HasSubstr("/data/meta/"));
  kill9("metaserver");
  kill9("chunkserver-1");
  restart_missing();
  EXPECT_EQ(readable_by_others(), "");
  // A directory that stands somewhere else is closed by its daemon.
  EXPECT_EQ(mode_of(cluster_directory() + "/data/meta"), 0700u);
  EXPECT_EQ(mode_of(cluster_directory() + "/data/chunkserver-1"), 0700u);
}

TEST_F(DaemonFiles, OfLogsAreOpenedAgainByAHangupThatEndsNobody) {
  start({"--chunkservers", "4", "--policy", "rs-2-1-64k", "--repair-managers", "1"});
  const std::vector<std::string> daemons{"metaserver", "chunkserver-1", "chunkserver-4", "repair-manager-1",
                                         "monitor"};
  std::vector<pid_t> before;
  for (const std::string& daemon : daemons) {
    before.push_back(pid_of(daemon));
    fs::rename(log_of(daemon), log_of(daemon) + ".moved");
    send(daemon, SIGHUP);
  }
  for (size_t i = 0; i < daemons.size(); ++i) {
    EXPECT_TRUE(eventually([&] { return logged(daemons[i]).find("is opened again") != std::string::npos; },
                           seconds(20)))
        << daemons[i] << ": " << logged(daemons[i]);
    EXPECT_EQ(pid_of(daemons[i]), before[i]);
    EXPECT_EQ(::kill(before[i], 0), 0) << daemons[i];
  }
  EXPECT_EQ(kintsugi({"put", make_file("file", 1'000, 1), "/file"}).exit_code, 0);
}

TEST_F(DaemonFiles, AreNotPutWhereADiskIsMissing) {
  start({"--chunkservers", "4", "--policy", "rs-2-1-64k"});
  const std::string missing = path("not-mounted");
  const Outcome refused =
      run_command({KINTSUGI_BINARIES "/kintsugi-chunkserver", "--metaserver", "127.0.0.1:1", "--secret-file",
                   cluster_directory() + "/secret", "--disks", cluster_directory() + "/data," + missing});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("there is no directory " + missing));
  EXPECT_FALSE(fs::exists(missing));
}

TEST_F(DaemonFiles, SurviveAHangupDuringTheStart) {
  start({"--chunkservers", "4", "--policy", "rs-2-1-64k"});
  kill9("metaserver");
  for (int round = 0; round < 5; ++round) {
    BackgroundCommand again(
        {KINTSUGI_BINARIES "/kintsugi-metaserver", "--config", cluster_directory() + "/etc/metaserver.toml"},
        {});
    // The first instants are exec's and the loader's: what is not yet a daemon cannot take a signal.
    ASSERT_TRUE(comes_to_take_hangups(again));
    ::usleep(static_cast<useconds_t>(20'000 * round));
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(again.send(SIGHUP)) << "round " << round << ", signal " << i;
      ::usleep(5'000);
    }
    EXPECT_TRUE(again.running()) << "round " << round;
  }
  restart_missing();
}

}  // namespace
}  // namespace kintsugi::processes
