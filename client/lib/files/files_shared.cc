#include "client/lib/files/files_shared.h"

#include "client/lib/files/open_file_state.h"
#include "common/log/log.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr Duration kTick = 200ms;
constexpr Duration kKeepReadAhead = 5s;  ///< what was read ahead and is not asked for

constexpr sight::Site kGiveBack{"client.give_back_leases", {"inodes"}};

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
      session(resources, journal, own_locks),
      calls(resources, session, options.io_timeout),
      locks(resources, session, calls, options.io_timeout),
      tasks(resources.runtime),
      names(resources, session, calls, tasks, name_log, options.known_names),
      groups(resources, calls, tasks, context()),
      compactor(resources, calls, tasks, context()),
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
  if (session.has_lease(inode)) session.give_back(inode);
  unleased.erase(inode);
  files.erase(inode);
}

asio::awaitable<void> FilesShared::give_back(std::vector<uint64_t> inodes) {
  sight::Task task(context(), kGiveBack, {static_cast<double>(inodes.size())});
  // Whoever wants to see them waits for this; it is tried as long as they do.
  while (!(co_await names.flush(task.context())).ok()) {
    const runtime::Wait wait(task.context(), runtime::WaitKind::kTimer);
    if (!co_await tasks.sleep_for(kTick)) co_return;
  }
  std::vector<std::shared_ptr<OpenFileState>> dirty;
  // Those that were made in such a directory belong to it.
  std::set<uint64_t> wanted(inodes.begin(), inodes.end());
  wanted.insert(unleased.begin(), unleased.end());
  for (const uint64_t inode : wanted) {
    const auto file = files.find(inode);
    if (file == files.end() || file->second->is_clean()) continue;
    file->second->start_flush();
    dirty.push_back(file->second);
  }
  // What cannot be written is told to whoever has the file open here, and is no reason to keep others waiting.
  for (const auto& file : dirty)
    (void)co_await file->flush(task.context());
  std::erase_if(unleased, [this](uint64_t inode) {
    const auto file = files.find(inode);
    return file == files.end() || file->second->is_clean();
  });
  for (const uint64_t inode : inodes)
    session.give_back(inode);
  const Status told = task.finish(co_await session.tell(task.context()));
  if (!told.ok()) log::debug("leases are given back later: {}", told.to_string());
}

asio::awaitable<void> FilesShared::want_lease(uint64_t inode) {
  if (!files.contains(inode) || !session.is_held(inode)) co_return;
  const auto told = co_await calls.get(context(), inode, true, true);
  if (!session.is_held(inode)) session.release_again(inode);  // it was closed meanwhile
  const auto file = files.find(inode);
  if (told && file != files.end()) file->second->adopt(*told);
  if (file == files.end() && session.has_lease(inode)) session.give_back(inode);
}

asio::awaitable<void> FilesShared::tick() {
  TimePoint drop_at = resources.now() + kKeepReadAhead;
  while (co_await ticker.sleep_for(kTick)) {
    const TimePoint now = resources.now();
    names.tick(options.write_behind / 2);
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
