#include "client/mount/directory_operations.h"

#include <algorithm>

#include <sys/stat.h>

#include "client/lib/files/file_mode.h"

namespace kintsugi::mount {
namespace {

constexpr size_t kListingsAtOnce = 32;
constexpr uint64_t kSpecialEntries = 2;  ///< "." and "..", which the metaserver does not list

}  // namespace

DirectoryOperations::DirectoryOperations(const runtime::Runtime& runtime, client::OpenFiles& files,
                                         ToldInodes& told, OpenHandles& handles)
    : files_(files), told_(told), handles_(handles), listings_(runtime, kListingsAtOnce) {}

asio::awaitable<Result<OpenAnswer>> DirectoryOperations::open_directory(const Caller& caller, NodeId) {
  KINTSUGI_CO_TRY(handles_.check_room());
  OpenAnswer answer;
  answer.handle = handles_.open_directory();
  co_return answer;
}

asio::awaitable<Status> DirectoryOperations::read_directory(const Caller& caller, NodeId node, Handle handle,
                                                            uint64_t cookie, bool plus,
                                                            DirectoryListing& into) {
  {
    const runtime::Wait wait(caller.context, runtime::WaitKind::kResource,
                             runtime::named_target(caller.context, "listings"));
    KINTSUGI_CO_TRY(co_await listings_.acquire(TimePoint::max()));
  }
  const Status listed = co_await list_entries(caller, node, handle, cookie, plus, into);
  listings_.release();
  co_return listed;
}

asio::awaitable<Status> DirectoryOperations::list_entries(const Caller& caller, NodeId node, Handle handle,
                                                          uint64_t cookie, bool plus,
                                                          DirectoryListing& into) {
  constexpr size_t kUsualName = 24;
  const std::shared_ptr<DirectoryCookies> cookies = handles_.directory(handle);
  for (uint64_t special = cookie + 1; special <= kSpecialEntries; ++special) {
    DirectoryEntry entry;
    entry.name = special == 1 ? "." : "..";
    entry.cookie = special;
    entry.entry.attributes.inode = special == 1 ? node : kRootNode;
    entry.entry.attributes.mode = S_IFDIR;
    if (!into.add(entry)) co_return Status{};
  }
  uint64_t at = cookie > kSpecialEntries ? cookie - kSpecialEntries : 0;
  auto [name, skip] = cookies->behind(at);
  while (true) {
    proto::ListInodeRequest request;
    request.set_directory(node);
    request.set_after(name);
    request.set_limit(static_cast<uint32_t>(std::clamp<size_t>(into.room(kUsualName) + skip, 1, 2000)));
    request.set_names_only(!plus);
    const auto page = co_await files_.calls().list(caller.context, std::move(request));
    // One that was removed while it is open has nothing in it.
    if (!page && page.error().code() == Code::kStale) co_return Status{};
    if (!page) co_return page.error();
    for (const proto::DirectoryEntry& listed : page->entries()) {
      name = listed.name();
      if (skip > 0) {
        --skip;
        continue;
      }
      DirectoryEntry entry;
      entry.name = listed.name();
      entry.cookie = cookies->add(at, listed.name()) + kSpecialEntries;
      if (into.room(listed.name().size()) == 0) co_return Status{};  // it must not count as looked up
      if (plus) {
        entry.entry = told_.entry_of(caller, node, listed.name(), listed.attributes());
      } else {
        entry.entry.attributes.inode = listed.attributes().inode();
        entry.entry.attributes.mode = client::type_bits(listed.attributes().type());
      }
      if (!into.add(entry)) co_return Status{};
      ++at;
    }
    if (!page->more()) co_return Status{};
  }
}

asio::awaitable<Status> DirectoryOperations::release_directory(const Caller& caller, NodeId, Handle handle) {
  handles_.release_directory(handle);
  co_return Status{};
}

asio::awaitable<Status> DirectoryOperations::fsync_directory(const Caller& caller) {
  co_return co_await files_.names().flush(caller.context);
}

}  // namespace kintsugi::mount
