/// Operations of the clients of a swarm run: many at once on few paths, each judged when it returns.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/simulation/cluster/client_program.h"
#include "tests/simulation/cluster/simulated_cluster.h"
#include "tests/simulation/swarm/coverage.h"
#include "tests/simulation/swarm/linear_directory.h"
#include "tests/simulation/swarm/violation.h"

namespace kintsugi::simulation {

class FileOperations {
 public:
  using Kind = LinearDirectory::Kind;

  FileOperations(SimulatedCluster& cluster, Coverage& coverage) : cluster_(cluster), coverage_(coverage) {}

  /// Makes that many directories. REQUIRES: called once, before any fault.
  Status make_directories(size_t count);
  /// Begins an operation in a directory; does nothing when that directory has too many open or unknown changes.
  void begin(size_t directory, LinearDirectory::Operation operation, uint64_t bytes);
  void begin_read(size_t directory, uint32_t name) { begin(directory, {Kind::kRead, name}, 0); }
  void begin_set_policy(size_t directory, std::string policy);
  /// Forgets what the client that crashed was doing: it may have happened or not.
  void client_crashed();

  /// A directory that still takes changes, by any number; those where too much is unknown are left alone.
  size_t active(uint64_t any) const;
  size_t under_way() const { return running_.size(); }
  size_t writes_under_way() const;
  /// What was found wrong since the last call.
  Finding take_finding() { return std::exchange(finding_, {}); }
  /// The next content: a number that no other has.
  uint32_t new_content() { return next_content_++; }

  /// Reads every file that may exist, with no fault about; errors are findings too.
  Finding read_everything();

 private:
  struct Directory {
    std::string path;
    LinearDirectory history;
  };
  struct Running {
    Directory* directory = nullptr;
    LinearDirectory::Operation operation;
    LinearDirectory::Handle handle = 0;
    uint64_t bytes = 0;
    bool abandoned = false;  ///< its client crashed
  };
  using RunningPtr = std::shared_ptr<Running>;

  asio::awaitable<void> run(ClientProgram& program, RunningPtr running);
  asio::awaitable<void> run_set_policy(ClientProgram& program, std::string path, std::string policy);
  asio::awaitable<Status> change(client::Client& client, const Running& running);
  asio::awaitable<void> read(client::Client& client, const Running& running);
  asio::awaitable<void> list(client::Client& client, const Running& running);
  void found(Violation violation, const Directory& directory, const Status& status);
  /// The content that these bytes are, which must be as they were written; 0 and a finding when they are not.
  uint32_t content_of(const Running& running, std::span<const std::byte> bytes);
  static std::string path_of(const Directory& directory, uint32_t name);

  SimulatedCluster& cluster_;
  Coverage& coverage_;
  std::vector<std::unique_ptr<Directory>> directories_;
  std::set<RunningPtr> running_;
  Finding finding_;
  bool errors_count_ = false;  ///< a read that fails is a finding
  uint32_t next_content_ = 2;
};

}  // namespace kintsugi::simulation
