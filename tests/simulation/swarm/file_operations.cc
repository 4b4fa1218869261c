#include "tests/simulation/swarm/file_operations.h"

#include <algorithm>
#include <cstring>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <fmt/format.h>

#include "common/base/hash.h"
#include "tests/simulation/cluster/growing_sink.h"

namespace kintsugi::simulation {
namespace {

using Kind = LinearDirectory::Kind;

constexpr std::string_view kKinds[] = {"put", "create", "remove", "rename", "read", "list"};
constexpr size_t kMostOpen = 4;  ///< changes of one directory under way: each multiplies the explanations
constexpr size_t kActive = 3;    ///< directories in use at a time: few, so that operations meet
/// All empty files are equal.
constexpr uint32_t kEmpty = 1;

bool writes(Kind kind) {
  return kind == Kind::kPut || kind == Kind::kCreate;
}

/// The bytes begin with the number of the content and go on with what follows from it, so that whoever reads them can
/// tell which they are and whether they are whole.
std::vector<std::byte> bytes_of(uint32_t content, uint64_t size) {
  std::vector<std::byte> bytes(size);
  SimRandom(mix_bits(content)).fill(bytes);
  if (bytes.size() >= sizeof content) std::memcpy(bytes.data(), &content, sizeof content);
  return bytes;
}

}  // namespace

std::string FileOperations::path_of(const Directory& directory, uint32_t name) {
  return fmt::format("{}/f{}", directory.path, name);
}

Status FileOperations::make_directories(size_t count) {
  for (size_t i = 0; i < count; ++i) {
    auto directory = std::make_unique<Directory>();
    directory->path = fmt::format("/d{}", i);
    KINTSUGI_TRY(cluster_.run(cluster_.client().make_directory(directory->path, true)));
    directories_.push_back(std::move(directory));
  }
  return {};
}

size_t FileOperations::active(uint64_t any) const {
  std::vector<size_t> usable;
  for (size_t number = 0; number < directories_.size() && usable.size() < kActive; ++number)
    if (directories_[number]->history.unknowns() < LinearDirectory::kMaxUnknown) usable.push_back(number);
  return usable.empty() ? any % directories_.size() : usable[any % usable.size()];
}

size_t FileOperations::writes_under_way() const {
  return static_cast<size_t>(std::count_if(running_.begin(), running_.end(), [](const RunningPtr& running) {
    return writes(running->operation.kind);
  }));
}

void FileOperations::begin(size_t number, LinearDirectory::Operation operation, uint64_t bytes) {
  Directory& directory = *directories_[number];
  const auto open = std::count_if(running_.begin(), running_.end(),
                                  [&](const RunningPtr& other) { return other->directory == &directory; });
  const bool change = operation.kind != Kind::kRead && operation.kind != Kind::kList;
  if (static_cast<size_t>(open) >= kMostOpen) return;
  if (change && directory.history.unknowns() >= LinearDirectory::kMaxUnknown) return;
  auto running = std::make_shared<Running>();
  if (writes(operation.kind)) {
    // The number of the content must fit, or the file is empty.
    running->bytes = bytes < sizeof(uint32_t) ? 0 : bytes;
    operation.content = running->bytes == 0 ? kEmpty : new_content();
  }
  running->directory = &directory;
  running->operation = operation;
  running->handle = directory.history.begin(operation);
  running_.insert(running);
  ClientProgram& program = cluster_.client_program();
  asio::co_spawn(cluster_.simulation().executor(), run(program, running), asio::detached);
}

void FileOperations::begin_set_policy(size_t directory, std::string policy) {
  asio::co_spawn(cluster_.simulation().executor(),
                 run_set_policy(cluster_.client_program(), directories_[directory]->path, std::move(policy)),
                 asio::detached);
}

asio::awaitable<void> FileOperations::run_set_policy(ClientProgram& program, std::string path,
                                                     std::string policy) {
  ClientProgram::Use use(program);
  (void)co_await program.client().set_policy(std::move(path), std::move(policy));
}

void FileOperations::client_crashed() {
  for (const RunningPtr& running : running_) {
    running->abandoned = true;
    running->directory->history.unknown(running->handle);
  }
  running_.clear();
}

void FileOperations::found(Violation violation, const Directory& directory, const Status& status) {
  if (!finding_) finding_ = {violation, fmt::format("{}: {}", directory.path, status.message())};
}

asio::awaitable<void> FileOperations::run(ClientProgram& program, RunningPtr running) {
  ClientProgram::Use use(program);
  client::Client& client = program.client();
  switch (running->operation.kind) {
    case Kind::kRead: co_await read(client, *running); break;
    case Kind::kList: co_await list(client, *running); break;
    default: {
      const Status status = co_await change(client, *running);
      if (running->abandoned) break;
      ++coverage_.outcomes[fmt::format("{} {}", kKinds[static_cast<size_t>(running->operation.kind)],
                                       status.ok() ? "ok" : code_name(status.code()))];
      // A file that could not be stored may have failed for a reason that tells nothing about the path.
      const bool told = status.ok() || (status.code() == Code::kNotFound && !writes(running->operation.kind));
      LinearDirectory& history = running->directory->history;
      if (!told) {
        history.unknown(running->handle);
        break;
      }
      const Status judged = history.changed(running->handle, status.code());
      if (!judged.ok()) found(Violation::kNotLinear, *running->directory, judged);
    }
  }
  // One that its client left is none of ours any more, and we may be gone.
  if (!running->abandoned) running_.erase(running);
}

asio::awaitable<Status> FileOperations::change(client::Client& client, const Running& running) {
  const LinearDirectory::Operation& operation = running.operation;
  const std::string path = path_of(*running.directory, operation.name);
  if (operation.kind == Kind::kRemove) co_return co_await client.remove(path, false);
  if (operation.kind == Kind::kRename)
    co_return co_await client.rename(path, path_of(*running.directory, operation.other), true);
  const std::vector<std::byte> bytes = bytes_of(operation.content, running.bytes);
  client::MemorySource source(bytes);
  client::WriteOptions options;
  options.replace = operation.kind == Kind::kPut;
  const auto written = co_await client.write(path, source, std::move(options));
  co_return written ? Status{} : written.error();
}

uint32_t FileOperations::content_of(const Running& running, std::span<const std::byte> bytes) {
  if (bytes.empty()) return kEmpty;
  uint32_t content = 0;
  if (bytes.size() >= sizeof content) std::memcpy(&content, bytes.data(), sizeof content);
  const auto expected = bytes_of(content, bytes.size());
  const auto at = std::mismatch(expected.begin(), expected.end(), bytes.begin()).first - expected.begin();
  if (content < next_content_ && static_cast<size_t>(at) == bytes.size()) return content;
  found(Violation::kWrongBytes, *running.directory,
        {Code::kCorrupt, fmt::format("f{}: {} bytes that begin as content {} differ from it at byte {}",
                                     running.operation.name, bytes.size(), content, at)});
  return 0;
}

asio::awaitable<void> FileOperations::read(client::Client& client, const Running& running) {
  GrowingSink sink;
  client::ReadOptions options;
  const auto attributes =
      co_await client.read(path_of(*running.directory, running.operation.name), sink, std::move(options));
  if (running.abandoned) co_return;
  LinearDirectory& history = running.directory->history;
  const Code code = attributes ? Code::kOk : attributes.error().code();
  ++coverage_.outcomes[fmt::format("read {}", attributes ? "ok" : code_name(code))];
  if (!attributes && code != Code::kNotFound) {
    if (code == Code::kCorrupt) found(Violation::kWrongBytes, *running.directory, attributes.error());
    if (errors_count_) found(Violation::kUnreadable, *running.directory, attributes.error());
    history.unknown(running.handle);
    co_return;
  }
  if (attributes && attributes->size() != sink.bytes.size()) {
    found(Violation::kWrongBytes, *running.directory,
          {Code::kCorrupt, fmt::format("f{}: {} of {} bytes", running.operation.name, sink.bytes.size(),
                                       attributes->size())});
  }
  const uint32_t content = attributes ? content_of(running, sink.bytes) : 0;
  if (finding_) co_return history.unknown(running.handle);
  const Status judged = history.saw(running.handle, content);
  if (!judged.ok()) found(Violation::kNotLinear, *running.directory, judged);
}

asio::awaitable<void> FileOperations::list(client::Client& client, const Running& running) {
  const auto entries = co_await client.list(running.directory->path);
  if (running.abandoned) co_return;
  LinearDirectory& history = running.directory->history;
  ++coverage_.outcomes[fmt::format("list {}", entries ? "ok" : code_name(entries.error().code()))];
  if (!entries) {
    if (errors_count_) found(Violation::kUnreadable, *running.directory, entries.error());
    co_return history.unknown(running.handle);
  }
  uint32_t names = 0;
  for (const auto& entry : entries->entries())
    names |= 1u << static_cast<uint32_t>(entry.name().back() - '0');
  const Status judged = history.saw(running.handle, names);
  if (!judged.ok()) found(Violation::kNotLinear, *running.directory, judged);
}

Finding FileOperations::read_everything() {
  errors_count_ = true;
  for (size_t directory = 0; directory < directories_.size(); ++directory) {
    for (uint32_t name = 0; name < LinearDirectory::kNames; ++name)
      begin_read(directory, name);
    const bool ended = cluster_.simulation().run_until([this] { return running_.empty(); },
                                                       SimulatedCluster::kOperationLimit);
    if (!ended) return {Violation::kNoEnd, "reads do not end although there is no fault"};
    if (finding_) break;
    begin(directory, {Kind::kList}, 0);
    (void)cluster_.simulation().run_until([this] { return running_.empty(); },
                                          SimulatedCluster::kOperationLimit);
  }
  errors_count_ = false;
  return take_finding();
}

}  // namespace kintsugi::simulation
