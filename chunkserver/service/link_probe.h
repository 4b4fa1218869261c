/// Measures the link to another chunkserver: both ends of the ProbeLink RPC, and when it is called.
#pragma once

#include <deque>
#include <optional>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/service/counters.h"
#include "chunkserver/service/link_rates.h"
#include "common/proto/chunk.pb.h"
#include "common/rpc/client.h"
#include "common/rpc/stream.h"
#include "common/runtime/event.h"
#include "common/runtime/random.h"
#include "common/runtime/task_group.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::chunkserver {

/// Limits of one probe, each way.
inline constexpr uint64_t kProbeBytes = 8ull << 20;
/// A probe sends nothing after this time.
inline constexpr Duration kProbeTime = std::chrono::milliseconds(300);
inline constexpr Duration kProbeLimit = std::chrono::seconds(15);  ///< deadline of a whole probe, both ways

/// A server takes part in one probe at a time, at whichever end, and in none while it has work: the probe would slow
/// that down, and be wrong.
class LinkProber {
 public:
  /// The first probes follow one another quickly, each with another peer.
  static constexpr size_t kFirstProbes = 3;
  static constexpr Duration kInterval = std::chrono::minutes(10);
  static constexpr Duration kFirstInterval = std::chrono::seconds(2);
  static constexpr Duration kRetryInterval = std::chrono::seconds(10);
  static constexpr double kUserBytesPerSecond = 1 << 20;  ///< a server whose users move more is busy

  /// References outlive it. Reads from `counters` whether the server has work, and counts probe_bytes there.
  LinkProber(const runtime::Runtime& runtime, ServiceCounters& counters, rpc::Client& client,
             sight::Recorder& recorder, LinkRates& rates);

  /// Probes until stopped, unless the rates are configured. Without this call the server only answers.
  void start();
  asio::awaitable<void> stop();
  /// Names a peer that the next probe may go to; the latest one counts.
  void offer(runtime::Endpoint peer);

  /// Serves the RPC. Closes the stream after kProbeLimit. kLimitExceeded: the server is busy.
  asio::awaitable<Status> serve(Context context, const proto::ProbeLinkRequest& request, rpc::Stream& stream);

 private:
  class Turn;
  bool may_probe() const;
  asio::awaitable<void> run();
  bool was_asked(const runtime::Endpoint& peer) const;
  Duration next_pause(bool ok);
  asio::awaitable<Status> probe(runtime::Endpoint peer);
  asio::awaitable<Result<double>> probe_up(Context context, runtime::Endpoint peer);
  asio::awaitable<Result<double>> probe_down(Context context, runtime::Endpoint peer);
  asio::awaitable<Status> answer(const proto::ProbeLinkRequest& request, rpc::Stream& stream);
  asio::awaitable<Status> send_all(uint64_t bytes, rpc::Stream& stream);
  asio::awaitable<Result<proto::ProbeLinkDone>> receive_all(rpc::Stream& stream);

  const runtime::Runtime& runtime_;
  ServiceCounters& counters_;
  rpc::Client& client_;
  sight::Recorder& recorder_;
  LinkRates& rates_;
  bool probing_ = false;
  std::optional<runtime::Endpoint> offered_;
  std::deque<runtime::Endpoint> asked_;  ///< peers of the last kFirstProbes probes
  size_t done_ = 0;
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::chunkserver
