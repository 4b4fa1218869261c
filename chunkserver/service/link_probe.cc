#include "chunkserver/service/link_probe.h"

#include <array>

#include "common/log/log.h"
#include "monitoring/sight/module.h"

namespace kintsugi::chunkserver {
namespace {

constexpr sight::Site kProbe{"chunkserver.probe_link", {}, {"up", "down"}};
constexpr size_t kPartBytes = 64 << 10;
/// The first bytes are not measured: they pass on the burst that a shaper lets through, and on TCP's start.
constexpr uint64_t kSkippedBytes = 512 << 10;
constexpr Duration kSkippedTime = 50ms;
/// Pause while no peer is offered. A peer that was asked lately is passed over kPeerPatience times in a row.
constexpr Duration kNoPeerPause = 1s;
constexpr size_t kPeerPatience = 5;

const std::array<std::byte, kPartBytes> kZeros{};

double rate_of(const proto::ProbeLinkDone& done) {
  return done.seconds() > 0 ? static_cast<double>(done.bytes()) / done.seconds() : 0;
}

asio::awaitable<void> close_at_limit(runtime::TaskGroup& tasks, rpc::Stream& stream) {
  const bool slept = co_await tasks.sleep_for(kProbeLimit);
  if (slept) stream.close();
}

}  // namespace

/// Marks the server as taking part in a probe.
class LinkProber::Turn {
 public:
  explicit Turn(LinkProber& prober) : prober_(prober) { prober_.probing_ = true; }
  ~Turn() { prober_.probing_ = false; }
  Turn(const Turn&) = delete;

 private:
  LinkProber& prober_;
};

LinkProber::LinkProber(const runtime::Runtime& runtime, ServiceCounters& counters, rpc::Client& client,
                       sight::Recorder& recorder, LinkRates& rates)
    : runtime_(runtime),
      counters_(counters),
      client_(client),
      recorder_(recorder),
      rates_(rates),
      tasks_(runtime) {}

void LinkProber::start() {
  if (!rates_.configured()) tasks_.spawn(run());
}

asio::awaitable<void> LinkProber::stop() {
  co_await tasks_.stop();
}

void LinkProber::offer(runtime::Endpoint peer) {
  offered_ = std::move(peer);
}

bool LinkProber::may_probe() const {
  return !probing_ && counters_.repairs_running == 0 &&
         counters_.user_rate.per_second(runtime_.clock.now()) < kUserBytesPerSecond;
}

bool LinkProber::was_asked(const runtime::Endpoint& peer) const {
  return std::find(asked_.begin(), asked_.end(), peer) != asked_.end();
}

Duration LinkProber::next_pause(bool ok) {
  Duration pause = ok ? kInterval : kRetryInterval;
  if (done_ < kFirstProbes) pause = kFirstInterval;
  // Three quarters to five quarters of the pause, so that servers that started together drift apart.
  return std::chrono::duration_cast<Duration>(pause * (0.75 + 0.5 * runtime_.random.fraction()));
}

asio::awaitable<void> LinkProber::run() {
  size_t patience = kPeerPatience;
  while (true) {
    const Duration until_peer = offered_ ? Duration::zero() : kNoPeerPause;
    const bool slept = co_await tasks_.sleep_for(until_peer);
    if (!slept) co_return;
    if (!offered_) continue;
    const runtime::Endpoint peer = *std::exchange(offered_, std::nullopt);
    if (was_asked(peer) && patience > 0) {
      --patience;
      continue;
    }
    patience = kPeerPatience;
    Status status{Code::kLimitExceeded, "this server is busy"};
    if (may_probe()) status = co_await probe(peer);
    if (status.ok()) {
      ++done_;
      asked_.push_back(peer);
      if (asked_.size() > kFirstProbes) asked_.pop_front();
    }
    const bool paused = co_await tasks_.sleep_for(next_pause(status.ok()));
    if (!paused) co_return;
  }
}

asio::awaitable<Status> LinkProber::probe(runtime::Endpoint peer) {
  Turn turn(*this);
  sight::BackgroundTask module{recorder_.root_context(runtime_.clock.now() + kProbeLimit), kProbe};
  // Down first: a peer that refuses is not sent megabytes, which would disturb whatever it is busy with.
  auto down = co_await probe_down(module.context(), peer);
  if (!down) co_return module.finish(down.error());
  auto up = co_await probe_up(module.context(), peer);
  if (!up) co_return module.finish(up.error());
  module.output(0, *up);
  module.output(1, *down);
  rates_.probed(*up, *down);
  log::info("link to {}: {:.1f} MB/s up, {:.1f} MB/s down", peer.to_string(), *up / 1e6, *down / 1e6);
  co_return module.finish({});
}

asio::awaitable<Result<double>> LinkProber::probe_up(Context context, runtime::Endpoint peer) {
  proto::ProbeLinkRequest request;
  request.set_bytes(kProbeBytes);
  auto stream = co_await client_.open_stream(context, peer, rpc::Method::kProbeLink, request);
  if (!stream) co_return stream.error();
  auto closing = tasks_.on_stop([&] { (*stream)->close(); });
  Status sent = co_await send_all(kProbeBytes, **stream);
  // A refusal explains a send that failed.
  proto::ProbeLinkDone done;
  auto answer = co_await (*stream)->receive(done);
  if (!answer) co_return answer.error();
  if (!sent.ok()) co_return sent;
  if (!answer->end || answer->payload_bytes > 0) co_return Status{Code::kCorrupt, "not the end of a probe"};
  client_.finish(peer, std::move(*stream));
  co_return rate_of(done);
}

asio::awaitable<Result<double>> LinkProber::probe_down(Context context, runtime::Endpoint peer) {
  proto::ProbeLinkRequest request;
  request.set_bytes(kProbeBytes);
  request.set_to_caller(true);
  auto stream = co_await client_.open_stream(context, peer, rpc::Method::kProbeLink, request);
  if (!stream) co_return stream.error();
  auto closing = tasks_.on_stop([&] { (*stream)->close(); });
  auto done = co_await receive_all(**stream);
  if (!done) co_return done.error();
  KINTSUGI_CO_TRY(co_await (*stream)->send_end(*done));
  client_.finish(peer, std::move(*stream));
  co_return rate_of(*done);
}

asio::awaitable<Status> LinkProber::serve(Context, const proto::ProbeLinkRequest& request,
                                          rpc::Stream& stream) {
  if (!may_probe()) co_return Status{Code::kLimitExceeded, "too busy for a probe"};
  Turn turn(*this);
  runtime::TaskGroup limit(runtime_);
  limit.spawn(close_at_limit(limit, stream));
  Status status = co_await answer(request, stream);
  co_await limit.stop();
  co_return status;
}

asio::awaitable<Status> LinkProber::answer(const proto::ProbeLinkRequest& request, rpc::Stream& stream) {
  if (!request.to_caller()) {
    auto done = co_await receive_all(stream);
    if (!done) co_return done.error();
    co_return co_await stream.send_end(*done);
  }
  KINTSUGI_CO_TRY(co_await send_all(std::min(request.bytes(), kProbeBytes), stream));
  proto::ProbeLinkDone seen;
  auto answer = co_await stream.receive(seen);
  co_return answer ? Status{} : answer.error();
}

asio::awaitable<Status> LinkProber::send_all(uint64_t bytes, rpc::Stream& stream) {
  const TimePoint until = runtime_.clock.now() + kProbeTime;
  const proto::ProbeLinkData data;
  const asio::const_buffer payload(kZeros.data(), kZeros.size());
  for (uint64_t sent = 0; sent < bytes && runtime_.clock.now() < until; sent += kPartBytes) {
    KINTSUGI_CO_TRY(co_await stream.send(data, std::span(&payload, 1)));
    counters_.probe_bytes += kPartBytes;
  }
  co_return co_await stream.send_end(data);
}

asio::awaitable<Result<proto::ProbeLinkDone>> LinkProber::receive_all(rpc::Stream& stream) {
  std::vector<std::byte> part(kPartBytes);
  uint64_t bytes = 0, skipped = 0;
  TimePoint first, measured_from, last;
  while (true) {
    proto::ProbeLinkData data;
    KINTSUGI_CO_ASSIGN(const rpc::Stream::Received frame, co_await stream.receive(data));
    if (frame.payload_bytes == 0 && !frame.end)
      co_return Status{Code::kInvalidArgument, "an empty part of a probe"};
    if (frame.payload_bytes > kPartBytes || bytes + frame.payload_bytes > kProbeBytes) {
      co_return Status{Code::kInvalidArgument, "more than a probe may cost"};
    }
    KINTSUGI_CO_TRY(co_await stream.receive_payload(std::span(part).first(frame.payload_bytes)));
    const TimePoint now = runtime_.clock.now();
    counters_.probe_bytes += frame.payload_bytes;
    if (frame.end) break;
    if (bytes == 0) first = now;
    bytes += frame.payload_bytes;
    // Measured from the end of the first parts to the end of the last one: no round trip is in it.
    if (skipped == 0 && (bytes >= kSkippedBytes || now - first >= kSkippedTime)) {
      skipped = bytes;
      measured_from = now;
    }
    last = now;
  }
  proto::ProbeLinkDone done;
  if (skipped > 0) {
    done.set_bytes(bytes - skipped);
    done.set_seconds(to_seconds(last - measured_from));
  }
  co_return done;
}

}  // namespace kintsugi::chunkserver
