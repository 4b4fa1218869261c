/// A file system that answers anything that its interface allows, and some that it does not, and holds the dispatcher to what the
/// interface promises of arguments.
#pragma once

#include <random>
#include <set>

#include "client/mount/kernel/request.h"
#include "tests/fuzz/subject.h"

namespace kintsugi::fuzz {

/// Answers depend on the seed alone. Throws Violation.
class DoubtfulFileSystem final : public mount::FileSystem {
 public:
  template <class T>
  using Answer = asio::awaitable<Result<T>>;
  using Done = asio::awaitable<Status>;
  using Caller = mount::Caller;
  using NodeId = mount::NodeId;
  using Handle = mount::Handle;

  explicit DoubtfulFileSystem(uint64_t seed) : random_(seed) {}

  /// The request that is served next: what is told of it must lie in it.
  void begin(const mount::Request& request);
  /// What was given with the last answer was taken back.
  bool nothing_granted() const { return handles_.empty() && directories_.empty() && looked_up_ == 0; }
  bool chance(uint64_t one_in) { return random_() % one_in == 0; }

  size_t entries_taken = 0;  ///< of the last listing

  void started(const mount::Negotiated&) override {}
  void forget(NodeId node, uint64_t lookups) override;
  Answer<mount::Entry> lookup(const Caller&, NodeId, std::string_view name) override;
  Answer<mount::AttributesAnswer> get_attributes(const Caller&, NodeId) override;
  Answer<mount::AttributesAnswer> set_attributes(const Caller&, NodeId,
                                                 const mount::AttributeChanges&) override;
  Answer<std::string> read_link(const Caller&, NodeId) override;
  Answer<mount::Entry> make_node(const Caller&, NodeId, std::string_view name,
                                 const mount::NewNode&) override;
  Answer<mount::Entry> make_directory(const Caller&, NodeId, std::string_view name,
                                      const mount::NewNode&) override;
  Answer<mount::Entry> symlink(const Caller&, NodeId, std::string_view name,
                               std::string_view target) override;
  Answer<mount::Entry> link(const Caller&, NodeId, NodeId, std::string_view name) override;
  Done unlink(const Caller&, NodeId, std::string_view name) override;
  Done remove_directory(const Caller&, NodeId, std::string_view name) override;
  Done rename(const Caller&, NodeId, std::string_view name, NodeId, std::string_view new_name,
              mount::RenameFlags) override;
  Answer<mount::OpenAnswer> open(const Caller&, NodeId, mount::OpenFlags) override;
  Answer<mount::CreateAnswer> create(const Caller&, NodeId, std::string_view name, const mount::NewNode&,
                                     mount::OpenFlags) override;
  Answer<mount::CreateAnswer> create_nameless(const Caller&, NodeId, const mount::NewNode&,
                                              mount::OpenFlags) override;
  Answer<mount::ReadAnswer> read(const Caller&, NodeId, const mount::ReadRequest&) override;
  Answer<uint32_t> write(const Caller&, NodeId, const mount::WriteRequest&) override;
  Done flush(const Caller&, NodeId, Handle, mount::LockOwner) override;
  Done release(const Caller&, NodeId, const mount::ReleaseRequest&) override;
  Done fsync(const Caller&, NodeId, Handle) override;
  Answer<mount::OpenAnswer> open_directory(const Caller&, NodeId) override;
  Done read_directory(const Caller&, NodeId, Handle, uint64_t, bool, mount::DirectoryListing&) override;
  Done release_directory(const Caller&, NodeId, Handle) override;
  Done fsync_directory(const Caller&, NodeId) override;
  Answer<mount::FileSystemSpace> space(const Caller&, NodeId) override;
  Done set_xattr(const Caller&, NodeId, std::string_view name, std::span<const std::byte>,
                 mount::SetXattrFlags) override;
  Answer<std::string> get_xattr(const Caller&, NodeId, std::string_view name) override;
  Answer<std::vector<std::string>> list_xattrs(const Caller&, NodeId) override;
  Done remove_xattr(const Caller&, NodeId, std::string_view name) override;
  Answer<mount::Lock> get_lock(const Caller&, NodeId, const mount::LockRequest&) override;
  Done set_lock(const Caller&, NodeId, const mount::LockRequest&) override;
  Done allocate(const Caller&, NodeId, Handle, int, uint64_t offset, uint64_t bytes) override;
  Answer<uint64_t> seek(const Caller&, NodeId, Handle, uint64_t offset, mount::SeekTo) override;
  Answer<uint64_t> copy_range(const Caller&, const mount::CopyRange&) override;

 private:
  uint64_t number();
  std::string text(size_t most) { return std::string(random_() % (most + 1), 'x'); }
  Status status();
  mount::Attributes attributes();
  Result<mount::Entry> entry();
  mount::OpenAnswer opened(std::multiset<Handle>& among);
  Result<mount::CreateAnswer> created();
  void check(std::string_view name);
  void check_new(std::string_view name);
  void check(const mount::LockRequest& request);

  std::mt19937_64 random_;
  std::span<const std::byte> body_;
  std::multiset<Handle> handles_, directories_;  ///< open, and not given back
  uint64_t looked_up_ = 0;
};

}  // namespace kintsugi::fuzz
