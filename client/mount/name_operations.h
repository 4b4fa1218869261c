/// The operations of a mount on names: it finds, makes, moves and removes them.
#pragma once

#include "client/lib/files/open_files.h"
#include "client/mount/kernel/file_system.h"
#include "client/mount/kernel_beliefs.h"
#include "client/mount/told_inodes.h"

namespace kintsugi::mount {

/// The operations are those of FileSystem.
class NameOperations {
 public:
  /// References outlive it.
  NameOperations(client::OpenFiles& files, KernelBeliefs& beliefs, ToldInodes& told)
      : files_(files), beliefs_(beliefs), told_(told) {}

  asio::awaitable<Result<Entry>> lookup(const Caller& caller, NodeId parent, std::string_view name);
  asio::awaitable<Result<Entry>> make_node(const Caller& caller, NodeId parent, std::string_view name,
                                           const NewNode& node);
  asio::awaitable<Result<Entry>> make_directory(const Caller& caller, NodeId parent, std::string_view name,
                                                const NewNode& node);
  asio::awaitable<Result<Entry>> symlink(const Caller& caller, NodeId parent, std::string_view name,
                                         std::string_view target);
  asio::awaitable<Result<Entry>> link(const Caller& caller, NodeId node, NodeId new_parent,
                                      std::string_view new_name);
  asio::awaitable<Status> unlink(const Caller& caller, NodeId parent, std::string_view name);
  asio::awaitable<Status> remove_directory(const Caller& caller, NodeId parent, std::string_view name);
  asio::awaitable<Status> rename(const Caller& caller, NodeId parent, std::string_view name,
                                 NodeId new_parent, std::string_view new_name, RenameFlags flags);

  /// Makes an inode by that name, or without one if that is empty. `hold`: it is open from the beginning.
  asio::awaitable<Result<proto::Attributes>> make(const Caller& caller, NodeId parent, std::string_view name,
                                                  const NewNode& node, bool hold);

 private:
  /// Writes out, before a file takes the place of another one, what of it is not written out yet: a program that writes
  /// a new version and renames it must not be left with neither.
  asio::awaitable<Status> write_out_before_replacing(const Caller& caller, NodeId parent,
                                                     std::string_view name, NodeId new_parent,
                                                     std::string_view new_name);
  /// Tells the metaserver what is open here, which it must know before a name goes.
  asio::awaitable<Status> tell_holds(const Caller& caller);

  client::OpenFiles& files_;
  KernelBeliefs& beliefs_;
  ToldInodes& told_;
};

}  // namespace kintsugi::mount
