#include "tests/simulation/swarm/linear_directory.h"

#include <fmt/format.h>

#include "common/base/assert.h"

namespace kintsugi::simulation {
namespace {

bool is_change(LinearDirectory::Kind kind) {
  return kind != LinearDirectory::Kind::kRead && kind != LinearDirectory::Kind::kList;
}

std::string in_words(const LinearDirectory::Operation& operation) {
  constexpr const char* kWords[] = {"put", "create", "remove", "rename", "read", "list"};
  std::string words = fmt::format("{} {}", kWords[static_cast<size_t>(operation.kind)], operation.name);
  if (operation.kind == LinearDirectory::Kind::kRename) words += fmt::format(" to {}", operation.other);
  if (operation.content != 0) words += fmt::format(" with content {}", operation.content);
  return words;
}

}  // namespace

LinearDirectory::Handle LinearDirectory::begin(Operation operation) {
  const Handle handle = next_++;
  open_[handle] = operation;
  if (is_change(operation.kind)) return handle;
  std::set<World> looking;
  for (World world : worlds_) {
    world.seen[handle] = {look(operation, world.contents)};
    looking.insert(std::move(world));
  }
  worlds_ = std::move(looking);
  return handle;
}

uint32_t LinearDirectory::look(const Operation& operation, const Contents& contents) {
  if (operation.kind == Kind::kRead) return contents[operation.name];
  uint32_t there = 0;
  for (size_t name = 0; name < kNames; ++name)
    there |= contents[name] != 0 ? 1u << name : 0;
  return there;
}

Code LinearDirectory::apply(const Operation& operation, Contents& contents) {
  uint32_t& at = contents[operation.name];
  switch (operation.kind) {
    case Kind::kPut: at = operation.content; return Code::kOk;
    case Kind::kCreate:
      if (at != 0) return Code::kAlreadyExists;
      at = operation.content;
      return Code::kOk;
    case Kind::kRemove:
      if (at == 0) return Code::kNotFound;
      at = 0;
      return Code::kOk;
    case Kind::kRename:
      if (at == 0) return Code::kNotFound;
      if (operation.other != operation.name) contents[operation.other] = std::exchange(at, 0);
      return Code::kOk;
    case Kind::kRead:
    case Kind::kList: break;
  }
  KINTSUGI_ASSERT(!"only changes are applied");
  return Code::kInternal;
}

void LinearDirectory::expand() {
  std::vector<World> left(worlds_.begin(), worlds_.end());
  const auto happen = [&](const World& world, Handle handle, const Operation& operation, bool remembered) {
    if (!is_change(operation.kind) || world.done.contains(handle)) return;
    World next = world;
    const Code outcome = apply(operation, next.contents);
    // A change of unknown outcome that would change nothing now may as well happen later, or never.
    if (!remembered && outcome != Code::kOk) return;
    next.done[handle] = outcome;
    for (auto& [reader, seen] : next.seen)
      seen.insert(look(open_.at(reader), next.contents));
    if (worlds_.insert(next).second) left.push_back(std::move(next));
  };
  while (!left.empty()) {
    const World world = std::move(left.back());
    left.pop_back();
    for (const auto& [handle, operation] : open_)
      happen(world, handle, operation, true);
    for (const auto& [handle, operation] : unknown_)
      happen(world, handle, operation, false);
  }
}

template <class Keep>
Status LinearDirectory::keep(Keep wanted, const Operation& operation, const char* what) {
  expand();
  const std::set<World> before = worlds_;
  std::erase_if(worlds_, [&](const World& world) { return !wanted(world); });
  if (!worlds_.empty()) return {};
  std::set<std::string> possible;
  for (const World& world : before)
    possible.insert(fmt::format("[{}]", fmt::join(world.contents, " ")));
  return {Code::kCorrupt, fmt::format("{} {}; the directory could have been {}", in_words(operation), what,
                                      fmt::join(possible, " or "))};
}

void LinearDirectory::forget(Handle handle) {
  std::set<World> left;
  for (World world : worlds_) {
    world.done.erase(handle);
    world.seen.erase(handle);
    left.insert(std::move(world));
  }
  worlds_ = std::move(left);
}

Status LinearDirectory::changed(Handle handle, Code outcome) {
  const Operation operation = open_.at(handle);
  const std::string what = fmt::format("returned \"{}\"", outcome == Code::kOk ? "ok" : code_name(outcome));
  const Status status = keep(
      [&](const World& world) {
        const auto done = world.done.find(handle);
        return done != world.done.end() && done->second == outcome;
      },
      operation, what.c_str());
  open_.erase(handle);
  forget(handle);
  return status;
}

Status LinearDirectory::saw(Handle handle, uint32_t what) {
  const Operation operation = open_.at(handle);
  const Status status = keep([&](const World& world) { return world.seen.at(handle).contains(what); },
                             operation, fmt::format("saw {}", what).c_str());
  open_.erase(handle);
  forget(handle);
  return status;
}

void LinearDirectory::unknown(Handle handle) {
  const auto found = open_.find(handle);
  KINTSUGI_ASSERT(found != open_.end());
  if (is_change(found->second.kind)) {
    unknown_[handle] = found->second;
    open_.erase(found);
    return;
  }
  open_.erase(found);
  forget(handle);
}

std::set<uint32_t> LinearDirectory::possible(uint32_t name) const {
  LinearDirectory copy = *this;
  copy.expand();
  std::set<uint32_t> contents;
  for (const World& world : copy.worlds_)
    contents.insert(world.contents[name]);
  return contents;
}

}  // namespace kintsugi::simulation
