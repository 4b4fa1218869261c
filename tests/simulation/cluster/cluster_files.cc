// Files of the simulated cluster: operations in the background and what they are compared with.
#include <algorithm>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "tests/simulation/cluster/client_program.h"
#include "tests/simulation/cluster/growing_sink.h"
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

asio::awaitable<Result<std::vector<std::byte>>> read_file(ClientProgram& program, std::string path) {
  ClientProgram::Use use(program);
  GrowingSink sink;
  client::ReadOptions options;
  const auto attributes = co_await program.client().read(std::move(path), sink, std::move(options));
  if (!attributes) co_return attributes.error();
  if (attributes->size() != sink.bytes.size())
    co_return Status{Code::kCorrupt,
                     fmt::format("{} bytes came of a file of {}", sink.bytes.size(), attributes->size())};
  co_return std::move(sink.bytes);
}

}  // namespace

std::shared_ptr<SimulatedCluster::Operation> SimulatedCluster::operation(const std::string& path) {
  auto operation = std::make_shared<Operation>();
  operation->path = path;
  return operation;
}

SimulatedCluster::OperationPtr SimulatedCluster::start_put(const std::string& path, uint64_t size) {
  const Content content{simulation_.seed_for("content " + std::to_string(next_content_++)), size};
  auto operation = this->operation(path);
  oracle_.put_begins(path, content);
  asio::co_spawn(simulation_.executor(),
                 put_in_background(client_program(client_of(path)), operation, content), asio::detached);
  return operation;
}

SimulatedCluster::OperationPtr SimulatedCluster::start_remove(const std::string& path) {
  auto operation = this->operation(path);
  oracle_.remove_begins(path);
  asio::co_spawn(simulation_.executor(), remove_in_background(client_program(client_of(path)), operation),
                 asio::detached);
  return operation;
}

SimulatedCluster::OperationPtr SimulatedCluster::start_check(const std::string& path) {
  auto operation = this->operation(path);
  asio::co_spawn(simulation_.executor(), check_in_background(client_program(client_of(path)), operation),
                 asio::detached);
  return operation;
}

asio::awaitable<void> SimulatedCluster::put_in_background(ClientProgram& program,
                                                          std::shared_ptr<Operation> operation,
                                                          Content content) {
  ClientProgram::Use use(program);
  const TimePoint began = simulation_.now();
  const std::vector<std::byte> bytes = content.bytes();
  client::MemorySource source(bytes);
  client::WriteOptions options;
  options.replace = true;
  const auto written = co_await program.client().write(operation->path, source, std::move(options));
  if (written) {
    oracle_.put_acknowledged(operation->path, content);
  } else {
    operation->status = written.error();
  }
  operation->took = simulation_.now() - began;
  operation->done = true;
}

asio::awaitable<void> SimulatedCluster::remove_in_background(ClientProgram& program,
                                                             std::shared_ptr<Operation> operation) {
  ClientProgram::Use use(program);
  const TimePoint began = simulation_.now();
  operation->status = co_await program.client().remove(operation->path, false);
  if (operation->status.ok()) oracle_.remove_acknowledged(operation->path);
  operation->took = simulation_.now() - began;
  operation->done = true;
}

asio::awaitable<void> SimulatedCluster::check_in_background(ClientProgram& program,
                                                            std::shared_ptr<Operation> operation) {
  ClientProgram::Use use(program);
  const TimePoint began = simulation_.now();
  const auto seen = co_await read_file(program, operation->path);
  operation->status = oracle_.check(operation->path, seen).with_context(operation->path);
  operation->took = simulation_.now() - began;
  operation->done = true;
}

SimulatedCluster::DeepCheckPtr SimulatedCluster::start_deep_check(client::DeepCheckOptions options) {
  auto report = std::make_shared<std::optional<Result<client::DeepCheckReport>>>();
  auto check = [](ClientProgram& program, client::DeepCheckOptions options,
                  decltype(report) out) -> asio::awaitable<void> {
    ClientProgram::Use use(program);
    *out = co_await program.client().deep_check("/", std::move(options));
  };
  asio::co_spawn(simulation_.executor(), check(client_program(), std::move(options), report), asio::detached);
  return report;
}

Status SimulatedCluster::finish(const OperationPtr& operation) {
  if (!simulation_.run_until([&operation] { return operation->done; }, kOperationLimit))
    return {Code::kDeadlineExceeded, operation->path + ": the operation does not end"};
  return operation->status;
}

Result<std::vector<std::byte>> SimulatedCluster::get(const std::string& path) {
  return run(read_file(client_program(client_of(path)), path));
}

Status SimulatedCluster::check_range(const std::string& path, uint64_t offset, uint64_t length) {
  const auto content = oracle_.content(path);
  KINTSUGI_ASSERT(content);
  const std::vector<std::byte> bytes = content->bytes();
  const uint64_t begin = std::min<uint64_t>(offset, bytes.size());
  const auto expected = std::span(bytes).subspan(begin, std::min<uint64_t>(length, bytes.size() - begin));
  std::vector<std::byte> seen(length);
  const auto filled = run(client().read_at(path, offset, seen));
  const std::string where = fmt::format("{} [{}, {})", path, offset, offset + length);
  if (!filled) return filled.error().with_context(where);
  if (*filled != expected.size() || !std::equal(expected.begin(), expected.end(), seen.begin()))
    return {Code::kCorrupt, fmt::format("{}: {} bytes, wrong ones or too few", where, *filled)};
  return {};
}

Status SimulatedCluster::check(const std::string& path) {
  return finish(start_check(path));
}

Status SimulatedCluster::check_contents() {
  Status first;
  for (const std::string& path : oracle_.paths()) {
    const Status status = check(path);
    if (status.ok()) continue;
    ADD_FAILURE() << status;
    if (first.ok()) first = status;
  }
  return first;
}

std::vector<proto::Stripe> SimulatedCluster::stripes_of(const std::string& path) {
  const auto extents = run(client().extents(path));
  if (!extents) {
    ADD_FAILURE() << path << ": " << extents.error();
    return {};
  }
  std::vector<proto::Stripe> stripes(extents->stripes().begin(), extents->stripes().end());
  const auto by_id = [](const proto::Stripe& a, const proto::Stripe& b) {
    return a.stripe_id() < b.stripe_id();
  };
  std::sort(stripes.begin(), stripes.end(), by_id);
  return stripes;
}

}  // namespace kintsugi::simulation
