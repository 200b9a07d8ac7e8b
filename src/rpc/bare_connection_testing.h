// SPDX-License-Identifier: Apache-2.0
// Tests only: connections in bytes.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>
#include <string>

namespace megalith::rpc {

/// A connection that says nothing yet, to "127.0.0.1:PORT".
inline int connected(const std::string& address) {
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int connection = ::socket(AF_INET, SOCK_STREAM, 0);
  if (::connect(connection, reinterpret_cast<const sockaddr*>(&place), sizeof place) != 0)
    throw std::runtime_error("cannot connect to " + address);
  return connection;
}

/// What comes until the server closes; the connection is closed too.
inline std::string rest_of(int connection) {
  std::string said;
  char piece[4096];
  for (ssize_t n = 0; (n = ::recv(connection, piece, sizeof piece, 0)) > 0;)
    said.append(piece, static_cast<size_t>(n));
  ::close(connection);
  return said;
}

/// What a server says to bytes until it closes.
inline std::string said_to(const std::string& address, const std::string& bytes) {
  const int connection = connected(address);
  if (::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(bytes.size()))
    throw std::runtime_error("cannot send to " + address);
  return rest_of(connection);
}

}  // namespace megalith::rpc
