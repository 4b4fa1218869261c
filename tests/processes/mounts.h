/// A cluster of real processes, mounted by the real kernel.
#pragma once

#include <string>
#include <vector>

#include "tests/processes/process_cluster.h"

namespace kintsugi::processes {

class Mounts : public ProcessCluster {
 protected:
  /// Skips the test where nothing can be mounted.
  void SetUp() override;
  void TearDown() override;

  /// Starts a cluster that is fit for most tests, and returns a directory where it is mounted.
  std::string start_and_mount();
  /// Mounts the cluster once more, at a new directory; fails the test if that does not answer.
  std::string mount(const std::vector<std::string>& options = {});
  /// The same, by a program in the place of kintsugi-mount whose name begins so.
  std::string mount_by(const std::string& program, const std::vector<std::string>& options = {});
  void unmount(const std::string& directory);
  /// The process that serves the mount, and the one that watches over it.
  static pid_t child_of(pid_t parent);
  pid_t parent_of(const std::string& directory) const;

 private:
  std::vector<std::string> mounted_;
};

}  // namespace kintsugi::processes
