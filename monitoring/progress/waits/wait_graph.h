/// The graph of waits: tasks, processes, devices and links of all processes as one graph, from the targets that waits
/// name.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "monitoring/progress/evidence/evidence.h"
#include "monitoring/progress/waits/hearing.h"

namespace kintsugi::progress {

enum class Place : uint8_t {
  kTask,
  kRunning,    ///< a process whose event loop is blocked by running code
  kSilent,     ///< a process that does not report
  kNotServed,  ///< requests to a process that reports, but has no task for them
  kUnanswered,  ///< requests that a process has served to their end, and whose answers did not come; name: what served them
  kDevice,
  kLink,    ///< two processes whose messages do not reach each other
  kCaller,  ///< an unknown caller: its process does not report
  kEnded,   ///< a remembered wait that ended without success
};

enum class EdgeKind : uint8_t {
  kFirm,    ///< the waiting vertex cannot continue before the other does
  kMasked,  ///< the waiter continues without the other: there are enough alternatives
  kEnded,   ///< the waiter gave up waiting for the other
  kWeak,    ///< the waiter may wait for the other: the holder of the resource is not known
};

struct Vertex {
  Place place = Place::kTask;
  int process = -1;   ///< index in the snapshot; -1: the process has not reported
  uint32_t task = 0;  ///< only for kTask and kRunning: index in OpenTasks, or none
  int peer = -1;      ///< only for kLink: the other process
  /// Name of a device; address of a process that has not reported; what is not served.
  std::string name;
  const EndedWait* ended = nullptr;
  bool stalled = true;
  /// What it waits for moves, or is idle on purpose: it holds nobody up.
  bool feeds = false;
  bool unresolved = false;  ///< the reports do not show what it waits for
  bool doubtful = false;    ///< whether it is blamed only because what it waits for is not visible
  bool mutual = false;      ///< only for kLink: neither end hears the other
  std::string why;          ///< why it is blamed, as a sentence
};

struct WaitEdge {
  uint32_t to;
  EdgeKind kind;
};

class WaitGraph {
 public:
  /// The parameters outlive this. `evidence` has seen the snapshot.
  WaitGraph(const OpenTasks& tasks, const Evidence& evidence);

  const std::vector<Vertex>& vertices() const { return vertices_; }
  const std::vector<std::vector<WaitEdge>>& edges() const { return edges_; }
  /// Key: processes that have to report everything that is open in them, because somebody waits for a task that their
  /// reports do not show; value: spans of calls that they may have served already, some of all.
  using Wanted = std::map<uint64_t, std::vector<uint64_t>>;
  Wanted& wanted() { return wanted_; }

 private:
  uint32_t vertex(Place place, int process, int peer, const std::string& name);
  void connect(uint32_t from, uint32_t to, EdgeKind kind = EdgeKind::kFirm);
  /// Firm when the other task makes no progress; else `from` is fed.
  void connect_to_tasks(uint32_t from, const std::vector<uint32_t>& tasks, bool same_process_only);
  void unresolved(uint32_t from, int process);
  void nobody_there(uint32_t task, const char* why);

  void add_edges(uint32_t task);
  void add_call(uint32_t task, const std::string& address, uint64_t span);
  void add_unserved(uint32_t task, int target);
  void add_process(uint32_t task);
  /// The place that is to blame when `callee` shows nothing of a request of `caller`.
  uint32_t unheard(const Hearing::Finding& finding, int caller, int callee);
  void add_upstream(uint32_t task);
  /// Tasks from whose calling context the handler was called, of the same operation.
  std::vector<uint32_t> callers_by_path(uint32_t task) const;
  void add_join(uint32_t task);
  void add_sibling(uint32_t task);
  void add_resource(uint32_t task);
  /// The task waits for the resource, or only for tasks of its process that do: it cannot be who has all of it.
  bool awaits(uint32_t task, const std::string& resource, int depth = 0) const;
  void add_device(uint32_t task);
  void add_ended();

  const OpenTasks& tasks_;
  const Evidence& evidence_;
  Hearing hearing_;
  std::vector<Vertex> vertices_;  ///< vertices of the tasks first, in the order of OpenTasks
  std::vector<std::vector<WaitEdge>> edges_;
  Wanted wanted_;
  std::map<std::tuple<Place, int, int, std::string>, uint32_t> by_name_;
  std::map<int, std::vector<uint32_t>> stalled_of_process_;
};

}  // namespace kintsugi::progress
