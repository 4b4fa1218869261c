#include "chunkserver/service/chunkserver.h"

#include "common/log/log.h"
#include "tracing/agent/trace_service.h"

namespace kintsugi::chunkserver {
namespace {

/// A writer and a reader make progress with so many.
constexpr size_t kLeastBuffersOfADisk = 6;

size_t buffer_count(const Options& options) {
  return std::max<size_t>(ChunkServer::kMinBuffers, options.buffer_memory_bytes / ChunkServer::kBufferBytes);
}

/// One disk may have all of them, one of several twice its part: while the others are idle it is as fast as ever, and
/// when it hangs they have enough.
size_t buffers_per_disk(const Options& options) {
  const size_t count = buffer_count(options);
  if (options.disks.size() <= 1) return count;
  return std::max(kLeastBuffersOfADisk, 2 * count / (options.disks.size() + 1));
}

StoreOptions store_options(const Options& options) {
  StoreOptions store;
  store.disks = options.disks;
  store.missing_disks = options.missing_disks;
  store.segments = options.segments;
  store.cache_bytes = options.cache_memory_bytes;
  store.disk_bytes_per_second = options.disk_bytes_per_second;
  store.buffers_per_disk = buffers_per_disk(options);
  return store;
}

}  // namespace

ChunkServer::ChunkServer(const runtime::Runtime& runtime, Options options, rpc::Secret secret)
    : network_(runtime.network, runtime.clock, traffic_),
      runtime_{runtime.executor, runtime.clock, network_, runtime.disk, runtime.random, runtime.faults},
      options_(std::move(options)),
      secret_(secret),
      recorder_(runtime_.clock, runtime_.random.next()),
      buffers_(runtime_, buffer_count(options_), kBufferBytes),
      store_(runtime_, store_options(options_)),
      client_(runtime_, secret_),
      server_(runtime_, secret_, &recorder_),
      metaserver_clock_(runtime_.clock),
      pacer_(runtime_),
      trees_(options_.tree_memory_bytes),
      sums_(runtime_, store_, buffers_, client_, pacer_, trees_),
      site_(runtime_, store_, buffers_, client_, pacer_, trees_),
      service_(runtime_, {secret_, metaserver_clock_, store_.identity()}, store_, buffers_, counters_),
      repairs_({secret_, metaserver_clock_, store_.identity()}, counters_, sums_, site_),
      rates_(runtime_.clock, traffic_, options_.link_up_bytes_per_second,
             options_.link_down_bytes_per_second),
      prober_(runtime_, counters_, client_, recorder_, rates_),
      orders_(runtime_, store_, recorder_),
      load_(runtime_.clock, counters_, store_, rates_, options_.cpu_seconds),
      heartbeat_(runtime_.clock, store_, load_, recorder_, orders_, prober_),
      peer_check_(runtime_, secret_, recorder_, heartbeat_) {
  service_.register_on(server_);
  repairs_.register_on(server_);
  tracing::TraceService::register_on(server_);
  server_.handle_stream<&LinkProber::serve>(rpc::Method::kProbeLink, prober_);
  network_.down_rate = [this] { return rates_.down(); };
  pacer_.set_bandwidth(options_.repair_bytes_per_second);
  pacer_.load = [this] { return user_load(); };
}

ChunkServer::~ChunkServer() = default;

UserLoad ChunkServer::user_load() const {
  UserLoad load;
  load.user = counters_.users_rate(runtime_.clock.now());
  load.link_up = static_cast<double>(rates_.up());
  load.link_down = static_cast<double>(rates_.down());
  load.serving = counters_.users_served;
  return load;
}

/// Where others reach this server.
std::string ChunkServer::address() const {
  runtime::Endpoint reached = server_.local_endpoint();
  if (!options_.advertise.empty()) reached.host = options_.advertise;
  return reached.to_string();
}

asio::awaitable<Status> ChunkServer::start() {
  Status status = co_await store_.start();
  if (status.ok()) status = server_.start(options_.listen);
  if (!status.ok()) co_return status;
  link_ = std::make_unique<MetaserverLink>(
      runtime_, store_, heartbeat_, client_, recorder_,
      LinkOptions{options_.metaserver, address(), options_.name, options_.rack, http_address_,
                  options_.repair_bytes_per_second, metaserver_clock_, pacer_});
  link_->on_refused = on_refused;
  link_->start();
  orders_.start();
  if (options_.probe_links) prober_.start();
  if (options_.check_peers) peer_check_.start();
  log::info("server {} serves {} chunks at {}", name(), store_.chunks(), address());
  co_return status;
}

void ChunkServer::set_repair_bandwidth(uint64_t bytes_per_second) {
  options_.repair_bytes_per_second = bytes_per_second;
  pacer_.set_bandwidth(bytes_per_second);
  if (link_) link_->set_repair_limit(bytes_per_second);
}

void ChunkServer::give_memory_back() {
  buffers_.give_back_idle();
  if (options_.cache_keep > Duration::zero())
    store_.cache().drop_unread(runtime_.clock.now() - options_.cache_keep);
}

asio::awaitable<void> ChunkServer::leave() {
  if (!registered()) co_return;
  constexpr Duration kPause = std::chrono::milliseconds(50);
  co_await link_->stop();
  runtime::TaskGroup tasks(runtime_);
  const TimePoint begun = runtime_.clock.now();
  TimePoint quiet_since = begun, next_word = begun;
  for (TimePoint now = begun; now < begun + kFinishLimit && now < quiet_since + kQuiet;) {
    // It is said again each second, for a server that is silent counts as dead.
    if (now >= next_word) {
      const Status told = co_await link_->say_leaving();
      if (!told.ok()) {
        log::warning("the metaserver does not know that this server stops: {}", told.to_string());
        break;
      }
      next_word = runtime_.clock.now() + MetaserverLink::kLeavingInterval;
    }
    (void)co_await tasks.sleep_for(kPause);
    now = runtime_.clock.now();
    if (counters_.users_served > 0) quiet_since = now;
  }
  co_await tasks.stop();
}

asio::awaitable<void> ChunkServer::stop() {
  // Trees end first: a call that is the root of one has no connection whose closing would end it.
  trees_.stop();
  service_.stop();
  if (link_) co_await link_->stop();
  co_await orders_.stop();
  co_await prober_.stop();
  co_await peer_check_.stop();
  co_await server_.stop();
  co_await client_.stop();
  co_await store_.stop();
}

}  // namespace kintsugi::chunkserver
