/// A cluster of processes whose repairs are slow enough to be interfered with, holding one file.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/processes/process_cluster.h"

namespace kintsugi::processes {

struct RigOptions {
  int servers = 9;
  std::string policy = "rs-4-2-256k";
  std::string chunk_size = "16MiB";
  std::string repair_delay = "0";
  std::string repair_bandwidth = "6MiB";  ///< of each server, a second; "0": no limit
  size_t file_bytes = size_t{64} << 20;
};

/// Servers are known by their ids, as the command line prints them, and the chunks by their index in the
/// file's first stripe. Deaths are noticed after some four seconds.
class RepairRig : public ProcessCluster {
 protected:
  using Json = nlohmann::json;
  static constexpr std::chrono::seconds kLimit{60};  ///< of everything that is waited for

  /// Starts the cluster and puts the file.
  void start_rig(const RigOptions& options);
  void TearDown() override;

  /// Returns what `kintsugi ARGUMENTS --json` prints; an empty object when it fails.
  Json ask(std::vector<std::string> arguments) const;
  std::string stripe_id() const { return stripe_id_; }
  std::string chunk(size_t index) const { return stripe_id_ + ":" + std::to_string(index); }
  size_t chunks() const { return originals_.size(); }
  /// The server that has the chunk, as the metaserver says; empty when it does not say.
  std::string server_of(size_t index) const;
  std::string daemon_of(const std::string& server) const { return daemons_.at(server); }

  void kill_server(const std::string& server);
  /// Starts a daemon that was killed, alone.
  void revive(const std::string& daemon);
  void revive_server(const std::string& server);
  /// Of a server that was revived.
  bool runs(const std::string& server) { return revived_.at(daemon_of(server))->running(); }
  int exit_code_of(const std::string& server);            ///< waits for its end
  void stop_server(const std::string& server) const;      ///< SIGSTOP
  void continue_server(const std::string& server) const;  ///< SIGCONT
  /// Flips bytes in the middle of the chunk's data on the disk of its server.
  void corrupt(size_t index);

  /// Waits until a repair runs and its first bytes are on the destination's disk. Its record, or null.
  Json running_tree() const;
  /// Newest first.
  std::vector<Json> history() const;
  /// An attempt failed and what it says names the server.
  bool failed_naming(const std::string& server) const;
  /// Repairs that rebuilt the chunk.
  size_t done_of(size_t index) const;
  /// All chunks are available, none of them on these servers.
  bool repaired_away_from(const std::vector<std::string>& servers) const;
  /// Nothing waits for repair or is being repaired, fsck is clean, and each chunk has one file on the disks
  /// of the servers that run, that of the server that the metaserver names.
  bool settled() const;
  /// Waits until settled(), then: each chunk's file holds what the put wrote, and so does the file.
  void expect_whole();
  std::string file() const { return path("file"); }

 private:
  /// The stripe's chunks as `kintsugi stat` shows them.
  Json placements() const;
  std::string begin_of_name(size_t index) const;
  /// Of the chunk, on the servers that run: daemon and path.
  std::vector<std::pair<std::string, std::string>> copies(size_t index) const;
  std::string data_of(const std::string& chunk_file) const;
  void set_up_slow(const RigOptions& options);

  std::string stripe_id_;
  std::map<std::string, std::string> daemons_;  // of a server's id
  std::set<std::string> down_;                  // daemons
  std::vector<std::string> originals_;          // data of each chunk
  std::map<std::string, std::unique_ptr<BackgroundCommand>> revived_;
};

}  // namespace kintsugi::processes
