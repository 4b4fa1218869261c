/// A cluster of real processes in a temporary directory, driven through the `kintsugi` command as a user
/// would.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/types.h>

namespace kintsugi::processes {

struct Outcome {
  int exit_code = -1;  ///< 128 + signal when it was killed
  std::string out, err;
};

/// Runs a command line to its end. `environment` holds NAME=value pairs added to ours.
Outcome run_command(const std::vector<std::string>& arguments,
                    const std::vector<std::string>& environment = {});

/// A command running beside the test; killed at the end of its life if it still runs.
class BackgroundCommand {
 public:
  BackgroundCommand(const std::vector<std::string>& arguments, const std::vector<std::string>& environment);
  ~BackgroundCommand();
  pid_t pid() const { return pid_; }
  /// Waits for the end.
  int exit_code();
  bool running();
  /// Sends a signal. False when the command has ended: kill() would send it to every process of the machine.
  bool send(int signal);

 private:
  pid_t pid_;
  int status_ = -1;
};

class ProcessCluster : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;  ///< also fails the test if a sanitizer found something in any of its processes

  /// `kintsugi cluster start` with `--dir` and these; fails the test if it does not come up.
  void start(const std::vector<std::string>& options);
  /// Skips the test if chunkserver-1 was built without sleds, so that it cannot be traced.
  void skip_without_sleds() const;
  /// `kintsugi ...` against the cluster.
  Outcome kintsugi(const std::vector<std::string>& arguments) const;
  std::vector<std::string> command(const std::vector<std::string>& arguments) const;
  const std::vector<std::string>& environment() const { return environment_; }

  pid_t pid_of(const std::string& daemon) const;  ///< "metaserver", "chunkserver-3"
  void kill9(const std::string& daemon) const;
  /// Sends a signal to a daemon; fails the test when there is no pid file of it.
  void send(const std::string& daemon, int signal) const;
  /// Starts whatever is not running, keeping the data.
  void restart_missing();

  /// Polls until `condition` holds; false after `limit`, or a multiple of it when sanitizers slow everything.
  static bool eventually(const std::function<bool()>& condition, std::chrono::seconds limit);
  /// fsck of everything reports no problem.
  bool healthy() const;

  /// Returns the text of a daemon's page, without the head of the answer.
  std::string page_of(const std::string& daemon, const std::string& page) const;
  std::string metrics_of(const std::string& daemon) const { return page_of(daemon, "/metrics"); }
  /// What a page says at an address, "127.0.0.1:20123".
  static std::string page_at(const std::string& address, const std::string& page);
  /// Bytes of chunks on the disks, those that are being written included.
  uint64_t bytes_on_disks() const;
  /// Bytes of the files below `directory` that a process has open, also of those that have no name.
  static uint64_t bytes_open_in(pid_t pid, const std::string& directory);

  /// A local file of `bytes` reproducible pseudo-random bytes; returns its path.
  std::string make_file(const std::string& name, size_t bytes, unsigned seed) const;
  static std::string read_file(const std::string& path);
  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  std::string cluster_directory() const { return path("cluster"); }

 private:
  std::string directory_;
  std::vector<std::string> environment_;
};

}  // namespace kintsugi::processes
