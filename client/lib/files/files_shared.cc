#include "client/lib/files/files_shared.h"

#include "client/lib/files/open_file_state.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::client {
namespace {

constexpr Duration kTick = 200ms;
constexpr Duration kKeepReadAhead = 5s;  ///< data that was read ahead and not asked for is kept so long

std::unique_ptr<DirtyMemory> or_of_process(std::unique_ptr<DirtyMemory> memory, size_t bytes) {
  if (memory) return memory;
  return std::make_unique<ProcessDirtyMemory>(DirtyBuffers::region_bytes(bytes));
}

}  // namespace

FilesShared::FilesShared(Resources& the_resources, FilesOptions the_options,
                         std::unique_ptr<DirtyMemory> the_memory, ChangeJournal* journal,
                         std::span<std::byte> name_log, std::span<std::byte> own_locks)
    : resources(the_resources),
      options(the_options),
      memory(or_of_process(std::move(the_memory), options.dirty_bytes)),
      leases(*this),
      session(resources, leases, journal, own_locks),
      direct(resources, options.io_timeout),
      tasks(resources.runtime),
      unsent(resources, session, direct, tasks, name_log),
      calls(session, direct, unsent),
      locks(resources, calls, leases, options.io_timeout),
      ids(resources, session.id(), unsent, tasks),
      names(resources, calls, unsent, ids, leases,
            {.lease_directories = options.lease_directories, .max_names = options.known_names}),
      groups(resources, calls, tasks, context()),
      buffers(*memory),
      locations{.limit = options.known_extents},
      room(resources.runtime),
      flush_turns(resources.runtime, kFlushesAtOnce),
      ticker(resources.runtime) {}

Context FilesShared::context() const {
  return resources.context();
}

TimePoint FilesShared::give_up() const {
  return options.io_timeout == Duration{} ? TimePoint::max() : resources.now() + options.io_timeout;
}

asio::awaitable<Status> FilesShared::wait_for_room(Context context) {
  ++waiting_for_room;
  ++traffic.room_waits;
  relieve();
  runtime::Wait wait(context, runtime::WaitKind::kResource, runtime::named_target(context, "dirty memory"));
  const bool woken = co_await room.wait_until(give_up());
  --waiting_for_room;
  if (woken) co_return Status{};
  co_return Status{Code::kUnavailable, "no memory came free for what was written"};
}

void FilesShared::relieve() {
  std::vector<uint64_t> oldest;
  for (const auto& [since, inode] : dirty_since) {
    if (oldest.size() >= kBegunAtOnce / 4) break;
    oldest.push_back(inode);
  }
  for (const uint64_t inode : oldest) {
    const auto file = files.find(inode);
    // What is under way frees memory soon, and a full stripe is better than what is there now.
    if (file != files.end() && !file->second->is_being_written_out()) file->second->start_flush();
  }
}

void FilesShared::forget(uint64_t inode) {
  // Attributes that were changed under the lease are refused without it, so they go ahead of its return. Those of an inode that the
  // metaserver has not heard of come under the lease of its directory.
  const bool attributes_first = !session.leases().is_unknown(inode) && unsent.has_attributes_of(inode);
  if (session.has_lease(inode) && attributes_first)
    leases.end_leases({inode});
  else if (session.has_lease(inode))
    session.leases().give_back(inode);
  leases.forget(inode);
  files.erase(inode);
}

asio::awaitable<void> FilesShared::tick() {
  TimePoint drop_at = resources.now() + kKeepReadAhead;
  while (co_await ticker.sleep_for(kTick)) {
    const TimePoint now = resources.now();
    unsent.tick(options.write_behind / 2);
    std::vector<uint64_t> due;
    for (const auto& [since, inode] : dirty_since) {
      if (now - since < options.write_behind || due.size() >= kBegunAtOnce) break;
      due.push_back(inode);
    }
    for (const uint64_t inode : due) {
      const auto file = files.find(inode);
      if (file != files.end()) file->second->start_flush();
    }
    if (read_ahead_bytes == 0 || now < drop_at) continue;
    drop_at = now + kKeepReadAhead;
    for (const auto& [inode, file] : files)
      file->drop_idle_reads(now - kKeepReadAhead);
  }
}

// ---- since when a file is dirty

void DirtySince::set_now() {
  if (since_) return;
  since_ = shared_.resources.now();
  shared_.dirty_since.emplace(*since_, inode_);
}

void DirtySince::clear() {
  if (!since_) return;
  shared_.dirty_since.erase({*since_, inode_});
  since_.reset();
}

}  // namespace kintsugi::client
