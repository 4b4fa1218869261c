#include "tests/simulation/diagnosis/load.h"

#include <array>

#include "tests/simulation/cluster/client_program.h"
#include "tests/simulation/cluster/growing_sink.h"

namespace kintsugi::simulation {
namespace {

constexpr const char* kKept = "/kept";
constexpr uint64_t kMostRounds = 1'000'000;

}  // namespace

Load::Load(SimulatedCluster& cluster)
    : cluster_(cluster),
      random_(cluster.simulation().seed_for("load")),
      tasks_(cluster.simulation().executor(), cluster.simulation().clock()) {}

Load::~Load() {
  tasks_.request_stop();
  cluster_.simulation().run(tasks_.join(), SimulatedCluster::kOperationLimit);
}

Status Load::start() {
  KINTSUGI_TRY(cluster_.put(kKept, kFileBytes));
  for (const proto::Stripe& stripe : cluster_.stripes_of(kKept))
    stripes_.push_back(stripe.stripe_id());
  rounds_.resize(cluster_.clients());
  struct Kind {
    Work work;
    Duration pause;
  };
  const std::array kinds{Kind{&Load::transfer, 1500ms}, Kind{&Load::metadata, 400ms}, Kind{&Load::repair, 1s},
                         Kind{&Load::read_lost, 800ms}};
  for (size_t client = 0; client < cluster_.clients(); ++client) {
    const Kind& kind = kinds[client % kinds.size()];
    tasks_.spawn(repeat(client, kind.work, kind.pause));
  }
  return {};
}

asio::awaitable<void> Load::repeat(size_t client, Work work, Duration pause) {
  for (uint64_t round = 0; round < kMostRounds; ++round) {
    const Duration about = pause / 2 + Duration(static_cast<int64_t>(random_.next() % pause.count()));
    const bool slept = co_await tasks_.sleep_for(about);
    if (!slept) co_return;
    const TimePoint began = cluster_.simulation().now();
    rounds_[client].began = began;
    const Status status = co_await (this->*work)(client);
    rounds_[client].began.reset();
    rounds_[client].ended.emplace_back(cluster_.simulation().now(), cluster_.simulation().now() - began);
    ++(status.ok() ? done_ : failed_);
    if (status.code() == Code::kCorrupt) wrong_.push_back(status.to_string());
  }
}

Duration Load::longest_since(TimePoint then) const {
  Duration longest{};
  for (const Rounds& rounds : rounds_) {
    if (rounds.began) longest = std::max(longest, cluster_.simulation().now() - *rounds.began);
    for (const auto& [when, took] : rounds.ended)
      if (when >= then) longest = std::max(longest, took);
  }
  return longest;
}

asio::awaitable<Status> Load::ended(SimulatedCluster::OperationPtr operation) {
  while (!operation->done) {
    const bool slept = co_await tasks_.sleep_for(10ms);
    if (!slept) co_return Status{Code::kCancelled, "the load ends"};
  }
  co_return operation->status;
}

asio::awaitable<Status> Load::transfer(size_t client) {
  std::string path;
  for (size_t i = 0; path.empty() || cluster_.client_of(path) != client; ++i)
    path = "/transfer-" + std::to_string(i);
  KINTSUGI_CO_TRY(co_await ended(cluster_.start_put(path, kFileBytes)));
  co_return co_await ended(cluster_.start_check(path));
}

asio::awaitable<Status> Load::metadata(size_t client) {
  ClientProgram& program = cluster_.client_program(client);
  const ClientProgram::Use use(program);
  client::Client& api = program.client();
  const std::string directory = "/directory-" + std::to_string(client), file = directory + "/file";
  // What an earlier round left behind.
  (void)co_await api.remove(directory, true);
  KINTSUGI_CO_TRY(co_await api.make_directory(directory, false));
  const std::vector<std::byte> bytes(kSmallBytes, std::byte{7});
  client::MemorySource source(bytes);
  const auto written = co_await api.write(file, source);
  if (!written) co_return written.error();
  const auto listed = co_await api.list(directory);
  if (!listed) co_return listed.error();
  const auto found = co_await api.stat(file);
  if (!found) co_return found.error();
  co_return co_await api.remove(directory, true);
}

asio::awaitable<Status> Load::repair(size_t client) {
  ClientProgram& program = cluster_.client_program(client);
  const ClientProgram::Use use(program);
  constexpr std::array kShapes{proto::CHAIN, proto::PPR, proto::STAR, proto::AUTO};
  proto::RunRepairRequest request;
  request.set_stripe_id(stripes_[random_.next() % stripes_.size()]);
  request.set_index(static_cast<uint32_t>(random_.next() % 9));
  request.set_shape(kShapes[random_.next() % kShapes.size()]);
  const auto repaired = co_await program.client().run_repair(std::move(request));
  co_return repaired ? Status{} : repaired.error();
}

asio::awaitable<Status> Load::read_lost(size_t client) {
  ClientProgram& program = cluster_.client_program(client);
  const ClientProgram::Use use(program);
  GrowingSink sink;
  const auto read = co_await program.client().read_lost_chunk(
      stripes_[random_.next() % stripes_.size()], static_cast<uint32_t>(random_.next() % 9), sink);
  co_return read ? Status{} : read.error();
}

}  // namespace kintsugi::simulation
