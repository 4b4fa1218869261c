/// What the C interface does with paths. Tasks on the connection's thread; pointers are used until they have ended.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <boost/asio/awaitable.hpp>

#include "client/capi/connection.h"
#include "client/capi/path_walk.h"

namespace kintsugi::capi {

asio::awaitable<Outcome> stat_path(ConnectionPtr connection, std::string path, LastName last_name,
                                   struct kintsugi_stat* into);
asio::awaitable<Outcome> stat_file_system(ConnectionPtr connection, struct kintsugi_statfs* into);
/// `request` says what changes; its caller and inode are filled in here.
asio::awaitable<Outcome> change_attributes(ConnectionPtr connection, std::string path, LastName last_name,
                                           proto::SetAttributesRequest request);

asio::awaitable<Outcome> make_directory(ConnectionPtr connection, std::string path, uint32_t mode);
asio::awaitable<Outcome> make_symlink(ConnectionPtr connection, std::string target, std::string path);
asio::awaitable<Outcome> read_symlink(ConnectionPtr connection, std::string path, std::span<char> into);
asio::awaitable<Outcome> make_link(ConnectionPtr connection, std::string from, std::string to);
asio::awaitable<Outcome> remove(ConnectionPtr connection, std::string path, bool directory);
asio::awaitable<Outcome> rename(ConnectionPtr connection, std::string from, std::string to, unsigned flags);

asio::awaitable<Outcome> get_xattr(ConnectionPtr connection, std::string path, std::string name,
                                   std::span<char> into);
/// `request` has the name, the value and what to do; its caller and inode are filled in here.
asio::awaitable<Outcome> set_xattr(ConnectionPtr connection, std::string path,
                                   proto::SetXattrRequest request);
asio::awaitable<Outcome> list_xattrs(ConnectionPtr connection, std::string path, std::span<char> into);

}  // namespace kintsugi::capi
