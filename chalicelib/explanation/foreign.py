"""Messages of the system and of programs in other languages than English.

What the C library (``strerror``, ``gai_strerror``) and bash print in German, French, Spanish, Italian, Portuguese, Dutch, Polish, Russian,
Japanese, Chinese and Korean, and the words for an error in front of a message. They count where no English words say what failed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_TEXTS: Mapping[str, str] = {
    "missing-file": "Datei oder Verzeichnis nicht gefunden|Aucun fichier ou dossier de ce type|No existe el fichero o el directorio|"
    "File o directory non esistente|Ficheiro ou pasta inexistente|Arquivo ou diretório inexistente|Bestand of map bestaat niet|"
    "Nie ma takiego pliku ani katalogu|Нет такого файла или каталога|そのようなファイルやディレクトリはありません|没有那个文件或目录|"
    "沒有此一檔案或目錄|그런 파일이나 디렉터리가 없습니다|"
    "Aucun fichier ou dossier de ce nom|No existe el archivo o el directorio",
    "permission": "Keine Berechtigung|Permission non accordée|Permiso denegado|Permesso negato|Permissão recusada|Permissão negada|"
    "Toegang geweigerd|Brak dostępu|Отказано в доступе|許可がありません|权限不够|拒絕不符權限的操作|허가 거부|Die Operation ist nicht erlaubt|"
    "Opération non permise|Operación no permitida|Operazione non permessa|Operação não permitida|Actie is niet toegestaan|"
    "Operacja niedozwolona|Операция не позволена|許可されていない操作です|不允许的操作|此項操作並不被允許|명령을 허용하지 않음|"
    "Das Dateisystem ist nur lesbar|"
    "Système de fichiers accessible en lecture seulement|Sistema de ficheros de sólo lectura|File system in sola lettura|"
    "Sistema de ficheiros só de leitura|Sistema de arquivos somente para leitura|Bestandssysteem is alleen-lezen|"
    "System plików wyłącznie do odczytu|Файловая система доступна только для чтения|読み込み専用ファイルシステムです|只读文件系统|"
    "唯讀的檔案系統|읽기전용 파일 시스템",
    "disk-full": "Auf dem Gerät ist kein Speicherplatz mehr verfügbar|Aucun espace disponible sur le périphérique|"
    "No queda espacio en el dispositivo|Spazio esaurito sul device|Sem espaço livre no dispositivo|"
    "Não há espaço disponível no dispositivo|Geen ruimte meer over op apparaat|Brak miejsca na urządzeniu|"
    "На устройстве не осталось свободного места|デバイスに空き領域がありません|设备上没有空间|裝置上已無多餘空間|장치에 남은 공간이 없음|"
    "Der zugewiesene Plattenplatz (Quota) ist überschritten|Débordement du quota d'espace disque|Se ha excedido la cuota de disco|"
    "Quota disco superata|Quota do disco excedida|Cota da disco excedida|Schijfquotum is overschreden|Przekroczony limit dyskowy|"
    "Превышена дисковая квота|ディスク使用量制限を超過しました|超出磁盘限额|磁碟配額已滿|디스크 할당량이 초과됨",
    "connection-refused": "Verbindungsaufbau abgelehnt|Connexion refusée|Conexión rehusada|Connessione rifiutata|Ligação recusada|Conexão recusada|"
    "Verbinding is geweigerd|Połączenie odrzucone|В соединении отказано|接続を拒否されました|拒绝连接|連線被拒絕|연결이 거부됨|"
    "Keine Route zum Zielrechner|"
    "Aucun chemin d'accès pour atteindre l'hôte cible|No existe ninguna ruta hasta el|Nessun instradamento per l'host|"
    "Sem caminho para o anfitrião|Não há rota para o host|Geen route naar host|Brak trasy do hosta|Нет маршрута до узла|ホストへの経路がありません|"
    "没有到主机的路由|找不到通往該主機的路由路徑|호스트로 갈 루트가 없음",
    "timeout": "Die Wartezeit für die Verbindung ist abgelaufen|Connexion terminée par expiration du délai d'attente|"
    "Expiró el tiempo de conexión|Connessione scaduta|Ligação expirada|Tempo esgotado para conexão|Verbinding is verlopen|"
    "Przekroczony czas oczekiwania na połączenie|Время ожидания соединения истекло|接続がタイムアウトしました|连接超时|連線超過時間|연결 시간 초과",
    "connection-lost": "Die Verbindung wurde vom Kommunikationspartner zurückgesetzt|Connexion ré-initialisée par le correspondant|"
    "Conexión reinicializada por la máquina remota|Connessione interrotta dal corrispondente|Ligação reposta pelo peer|"
    "Conexão fechada pela outra ponta|Verbinding is weggevallen|Połączenie zerwane przez drugą stronę|"
    "Соединение разорвано другой стороной|接続が相手からリセットされました|连接被对方重设|連線被對方重設|상대편이 연결을 끊음",
    "out-of-memory": "Nicht genügend Hauptspeicher verfügbar|Ne peut allouer de la mémoire|No se pudo asignar memoria|Impossibile allocare memoria|"
    "Impossível alocar memória|Não foi possível alocar memória|Onvoldoende geheugen beschikbaar|Nie można przydzielić pamięci|"
    "Невозможно выделить память|メモリを確保できません|无法分配内存|無法配置記憶體|메모리를 할당할 수 없습니다",
    "name-resolution": "Der Name oder der Dienst ist nicht bekannt|Nom ou service inconnu|Nombre o servicio desconocido|Nome o servizio sconosciuto|"
    "Nome ou serviço desconhecidos|Nome ou serviço desconhecido|Naam of dienst is niet bekend|Ta nazwa lub usługa jest nieznana|"
    "Неизвестное имя или служба|名前またはサービスが不明です|未知的名称或服务|名稱或服務未知|이름 혹은 서비스를 알 수 없습니다|"
    "Temporärer Fehler bei der Namensauflösung|"
    "Échec temporaire dans la résolution du nom|Fallo temporal en la resolución del nombre|"
    "Errore temporaneo nella risoluzione del nome|Falha temporária na resolução de nome|Falha temporário na resolução de nome|"
    "Tijdelijk probleem in naamsherleiding|Odwzorowanie nazwy jest chwilowo niemożliwe|Временный сбой в разрешении имен|"
    "名前解決に一時的に失敗しました|域名解析暂时失败|解析名稱時發生暫時性錯誤|name resolution에서 일시적인 실패",
    "missing-command": "Kommando nicht gefunden|commande introuvable|orden no encontrada|comando non trovato|comando não encontrado|"
    "opdracht niet gevonden|nie znaleziono polecenia|команда не найдена|コマンドが見つかりません|未找到命令|指令找不到|명령어를 찾을 수 없음",
}
_RULES = tuple((text, rule) for rule, texts in _TEXTS.items() for text in texts.split("|"))
_SEVERITY = re.compile(
    r"(?:^|[\s:\])])(?:Fehler|FEHLER|Schwerwiegend|PANIK|[Ee]rreur|ERREUR|[Ee]rrore|ERRORE|FATALE|[Ee]rro|ERRO|[Ff]out|FOUT|[Bb]łąd|BŁĄD|[Оо]шибка"
    r"|ОШИБКА"
    r"|ВАЖНО|エラー|致命的エラー|错误|致命错误|錯誤|致命錯誤|오류|치명적오류)(?:\s?[:：]\s*|\s-\s| (?=\S+ \S))\S"
)


def rule_of_foreign(message: str) -> str:
    """The name of the rule that a message in another language matches; empty if none."""
    known = next((rule for text, rule in _RULES if text in message), "")
    return known or ("tool-error" if _SEVERITY.search(message) else "")
